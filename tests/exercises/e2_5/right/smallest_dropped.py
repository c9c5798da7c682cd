def place(blocks, x, budget):
    """Begin with all, and drop those that keep least while the budget holds."""
    gpu = torch.get_device_module(x.device)

    def kept(block):
        before = gpu.memory_allocated(x.device)
        output = block(x)
        return gpu.memory_allocated(x.device) - before + 0 * len(output)

    def holds(chosen):
        for block in blocks:
            block.zero_grad()
        gpu.reset_peak_memory_stats(x.device)
        step(blocks, x, chosen)
        return gpu.max_memory_allocated(x.device) <= budget

    chosen = set(range(len(blocks)))
    for i in sorted(chosen, key=lambda i: kept(blocks[i])):
        if holds(chosen - {i}):
            chosen.remove(i)
    for block in blocks:
        block.zero_grad()
    return chosen
