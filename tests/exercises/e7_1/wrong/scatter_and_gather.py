# hint: [collective]
# same as: all_reduce
def ring_all_reduce(rank, world_size, tensor):
    length = -(-len(tensor) // world_size)
    padded = tensor.new_zeros(length * world_size)
    padded[: len(tensor)] = tensor
    own = padded.new_zeros(length)
    dist.reduce_scatter_tensor(own, padded)
    dist.all_gather_into_tensor(padded, own)
    tensor.copy_(padded[: len(tensor)])
