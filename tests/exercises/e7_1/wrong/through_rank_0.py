# hint: [not to the right]
# same as: leftwards
def ring_all_reduce(rank, world_size, tensor):
    if rank == 0:
        incoming = torch.empty_like(tensor)
        for other in range(1, world_size):
            dist.recv(incoming, other)
            tensor += incoming
        for other in range(1, world_size):
            dist.send(tensor, other)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
