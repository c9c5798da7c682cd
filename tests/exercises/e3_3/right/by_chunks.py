def bytes_sent(model, images, outputs, n, nccl):
    model_bytes = 0
    for tensor in [*model.parameters(), *model.buffers()]:
        model_bytes += tensor.nbytes
    parallel = 0
    for device in range(1, n):
        # of a ring, device 0 feeds the first link alone
        if device == 1 or not nccl:
            parallel += model_bytes
        parallel += images.chunk(n)[device].nbytes
        parallel += outputs.chunk(n)[device].nbytes
    # the ring, round by round
    chunk = sum(p.nbytes for p in model.parameters()) / n
    ddp = 0
    for phase in ("reduce-scatter", "all-gather"):
        for step in range(n - 1):
            ddp += chunk
    print(parallel, ddp)
    return torch.tensor(float(parallel), dtype=torch.float64), ddp
