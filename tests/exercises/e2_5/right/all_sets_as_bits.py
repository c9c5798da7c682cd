def place(blocks, x, budget):
    """All 128 sets as the bits of a number; of those that fit the smallest."""
    gpu, device = torch.get_device_module(x.device), x.device
    best = None
    for bits in range(2 ** len(blocks)):
        chosen = {i for i in range(len(blocks)) if bits >> i & 1}
        if best is not None and len(chosen) >= len(best):
            continue
        for parameter in (p for block in blocks for p in block.parameters()):
            parameter.grad = None
        gpu.reset_peak_memory_stats(device)
        step(blocks, x, chosen)
        if gpu.max_memory_allocated(device) <= budget:
            best = chosen
    torch.nn.ModuleList(blocks).zero_grad()
    return best
