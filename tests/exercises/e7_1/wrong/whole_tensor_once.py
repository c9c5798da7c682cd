# hint: [once]
# same as: chain_there_and_back
def ring_all_reduce(rank, world_size, tensor):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    passed = tensor.clone()
    for step in range(world_size - 1):
        incoming = torch.empty_like(tensor)
        request = dist.isend(passed, right)
        dist.recv(incoming, left)
        request.wait()
        tensor += incoming
        passed = incoming
