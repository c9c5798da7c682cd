# hint: [in backward]
# same as: forward_alone
def place(blocks, x, budget):
    """The largest ones, until what they keep is as much as the peak is over."""
    gpu = torch.get_device_module(x.device)
    gpu.reset_peak_memory_stats(x.device)
    step(blocks, x, [])
    over = gpu.max_memory_allocated(x.device) - budget
    for block in blocks:
        block.zero_grad()
    kept = {}
    for i, block in enumerate(blocks[:-1]):
        before = gpu.memory_allocated(x.device)
        output = block(x)
        kept[i] = gpu.memory_allocated(x.device) - before
        del output
    chosen = set()
    while over > 0:
        largest = max(kept, key=kept.get)
        over -= kept.pop(largest)
        chosen.add(largest)
    return chosen
