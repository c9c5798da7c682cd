def place(blocks, x, budget):
    """Where is the peak? Of the blocks before that one take the largest."""
    chosen = set()
    sizes = [kept(block, x) for block in blocks]
    while True:
        over = first_over(blocks, x, chosen, budget)
        if over is None:
            return list(chosen)
        chosen.add(
            max((i for i in range(over) if i not in chosen), key=sizes.__getitem__)
        )


def kept(block, x):
    gpu = torch.get_device_module(x.device)
    before = gpu.memory_allocated(x.device)
    output = block(x)
    after = gpu.memory_allocated(x.device)
    return after - before - output.numel() * output.element_size()


def first_over(blocks, x, chosen, budget):
    """The first block in whose backward more is allocated than the budget; or None."""
    gpu = torch.get_device_module(x.device)
    peaks = {}

    def before_backward(i):
        def note(*_):
            peaks[i + 1] = gpu.max_memory_allocated(x.device)
            gpu.reset_peak_memory_stats(x.device)

        return note

    handles = [
        block.register_full_backward_pre_hook(before_backward(i))
        for i, block in enumerate(blocks)
    ]
    gpu.reset_peak_memory_stats(x.device)
    step(blocks, x, chosen)
    peaks[0] = gpu.max_memory_allocated(x.device)
    for handle in handles:
        handle.remove()
    for block in blocks:
        block.zero_grad()
    return next((i for i in range(len(blocks)) if peaks[i] > budget), None)
