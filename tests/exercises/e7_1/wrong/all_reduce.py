# hint: [collective]
def ring_all_reduce(rank, world_size, tensor):
    dist.all_reduce(tensor)
