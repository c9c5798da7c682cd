# hint: [in backward]
# same as: forward_alone
def place(blocks, x, budget):
    """Take from the peak of all what the chosen ones keep."""
    from itertools import combinations

    gpu = torch.get_device_module(x.device)
    gpu.reset_peak_memory_stats(x.device)
    step(blocks, x, ())
    for block in blocks:
        block.zero_grad()
    peak = gpu.max_memory_allocated(x.device)
    kept = []
    for block in blocks:
        before = gpu.memory_allocated(x.device)
        output = block(x)
        kept.append(gpu.memory_allocated(x.device) - before)
        del output
    for count in range(len(blocks) + 1):
        for chosen in combinations(range(len(blocks)), count):
            if peak - sum(kept[i] for i in chosen) <= budget:
                return chosen
