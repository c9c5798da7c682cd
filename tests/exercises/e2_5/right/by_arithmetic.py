from itertools import combinations


def place(blocks, x, budget):
    """Measure what each block keeps and its own peak, then add up for all sets."""
    gpu, device = torch.get_device_module(x.device), x.device
    count = len(blocks)

    # one step block by block: what is held after each, and the peak of its backward
    start = gpu.memory_allocated(device)
    outputs, kept, value = [], [], x
    for block in blocks:
        before = gpu.memory_allocated(device)
        value = block(value.detach().requires_grad_())
        kept.append(gpu.memory_allocated(device) - before - size_of(value))
        outputs.append(value)
    del value
    own, gradients = [0] * count, [0] * count
    for i in reversed(range(count)):
        gradient = torch.ones_like(outputs[i])
        before = gpu.memory_allocated(device) - size_of(gradient)
        gpu.reset_peak_memory_stats(device)
        outputs.pop().backward(gradient)
        own[i] = gpu.max_memory_allocated(device) - before
        gradients[i] = sum(size_of(p) for p in blocks[i].parameters())
        del gradient
    for block in blocks:
        block.zero_grad()

    def peak(chosen):
        """What is held in backward of each block: all before, and gradients after."""
        return max(
            start
            + size_of(x) * (i + 2)
            + sum(kept[j] for j in range(i + 1) if j == i or j not in chosen)
            + sum(gradients[i + 1 :])
            + own[i]
            - size_of(x)
            for i in range(count)
        )

    for n in range(count + 1):
        for chosen in combinations(range(count), n):
            if peak(chosen) <= budget:
                return set(chosen)


def size_of(tensor):
    return tensor.numel() * tensor.element_size()
