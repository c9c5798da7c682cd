# hint: [to spare]
def place(blocks, x, budget):
    """Recompute those that keep most, until a step holds the budget."""
    gpu = torch.get_device_module(x.device)

    def kept(block):
        before = gpu.memory_allocated(x.device)
        output = block(x)
        return gpu.memory_allocated(x.device) - before + 0 * len(output)

    def peak(chosen):
        gpu.reset_peak_memory_stats(x.device)
        step(blocks, x, chosen)
        for block in blocks:
            block.zero_grad()
        return gpu.max_memory_allocated(x.device)

    order = sorted(range(len(blocks)), key=lambda i: -kept(blocks[i]))
    count = 0
    while peak(order[:count]) > budget:
        count += 1
    return order[:count]
