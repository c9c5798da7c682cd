def swap(outgoing, incoming, rank, world_size):
    """Send to the right and receive from the left, at the same time."""
    pair = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % world_size),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % world_size),
    ]
    for request in dist.batch_isend_irecv(pair):
        request.wait()


def ring_all_reduce(rank, world_size, tensor):
    if world_size == 1:
        return
    # every chunk has the same length, the last ones are filled up with zeros
    length = -(-len(tensor) // world_size)
    padded = tensor.new_zeros(length * world_size)
    padded[: len(tensor)] = tensor
    chunks = padded.view(world_size, length)
    incoming = torch.empty_like(chunks[0])
    for step in range(world_size - 1):
        swap(chunks[(rank - step) % world_size], incoming, rank, world_size)
        chunks[(rank - step - 1) % world_size].add_(incoming)
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 - step) % world_size], incoming, rank, world_size)
        chunks[(rank - step) % world_size].copy_(incoming)
    tensor.copy_(padded[: len(tensor)])
