def place(blocks, x, budget):
    """Add the block that lowers the measured peak most, until the budget holds."""
    chosen = []
    while peak(blocks, x, chosen) > budget:
        others = [i for i in range(len(blocks)) if i not in chosen]
        chosen.append(min(others, key=lambda i: peak(blocks, x, [*chosen, i])))
    return tuple(chosen)


def peak(blocks, x, chosen):
    torch.vgpu.reset_peak_memory_stats(x.device)
    step(blocks, x, chosen)
    for block in blocks:
        block.zero_grad(set_to_none=True)
    return torch.vgpu.max_memory_allocated(x.device)
