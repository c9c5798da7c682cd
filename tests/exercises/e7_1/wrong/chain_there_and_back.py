# hint: [once]
def ring_all_reduce(rank, world_size, tensor):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    if world_size == 1:
        return
    incoming = torch.empty_like(tensor)
    if rank > 0:
        dist.recv(incoming, left)
        tensor += incoming
    dist.send(tensor, right)
    if rank == 0:
        dist.recv(tensor, left)
        dist.send(tensor, right)
    elif rank < world_size - 1:
        dist.recv(tensor, left)
        if rank < world_size - 2:
            dist.send(tensor, right)
