def choose_cut(model, x, budget):
    weights, sizes = [0], [x.nbytes]
    with torch.no_grad():
        for module in model:
            x = module(x)
            weights.append(20 * sum(p.numel() for p in module.parameters()))
            sizes.append(x.nbytes)
    weights, sizes = torch.tensor(weights).cumsum(0), torch.tensor(sizes)

    def needs(first, last):
        held = sizes[first : last + 1]
        return weights[last] - weights[first] + held.sum() + held.max()

    cuts = range(1, len(model))
    left = torch.stack([needs(0, k) for k in cuts])
    right = torch.stack([needs(k, len(model)) for k in cuts])
    return torch.maximum(left, right).argmin() + 1
