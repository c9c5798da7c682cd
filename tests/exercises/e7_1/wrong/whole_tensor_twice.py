# hint: [twice]
def ring_all_reduce(rank, world_size, tensor):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    passed, total = tensor.clone(), tensor.clone()
    for step in range(2 * (world_size - 1)):
        incoming = torch.empty_like(tensor)
        request = dist.isend(passed, right)
        dist.recv(incoming, left)
        request.wait()
        if step < world_size - 1:
            total += incoming
        passed = incoming
    tensor.copy_(total)
