# %% answer-1-1
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[0])
    return lambda x: part_2(part_1(x)).to(devices[1])

# %% below picture-1-2
def need(module, x):
    return 20 * sum(p.numel() for p in module.parameters()) + x.nbytes

# %% answer-1-2
def choose_cut(model, x, budget):
    costs = []
    for module in model:
        x = module(x)
        costs.append(need(module, x))
    peaks = [max(sum(costs[:k]), sum(costs[k:])) for k in range(1, len(model))]
    return peaks.index(min(peaks)) + 1

# %% below check-1-2
[need(module, torch.rand(32, 64)) for module in model]

# %% answer-1-4
def training_bytes(widths, samples):
    count = sum(a * b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * samples * sum(widths),
    }
