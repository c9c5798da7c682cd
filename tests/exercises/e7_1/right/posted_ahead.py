def ring_all_reduce(rank, world_size, tensor):
    """Receives are posted first; rank r completes chunk r."""
    n = world_size
    edges = [len(tensor) * i // n for i in range(n + 1)]
    parts = [tensor[a:b] for a, b in zip(edges, edges[1:])]
    left, right = (rank + n - 1) % n, (rank + 1) % n
    for i in range(1, n):
        box = torch.zeros_like(parts[(rank - i - 1) % n])
        coming = dist.irecv(box, src=left)
        dist.send(parts[(rank - i) % n], dst=right)
        coming.wait()
        parts[(rank - i - 1) % n] += box
    for i in range(n - 1):
        # straight to its place, which nobody reads in this round
        coming = dist.irecv(parts[(rank - i - 1) % n], src=left)
        dist.send(parts[(rank - i) % n], dst=right)
        coming.wait()
