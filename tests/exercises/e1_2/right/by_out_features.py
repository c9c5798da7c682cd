def choose_cut(model, x, budget):
    def need(part, width):
        bytes = 0
        for module in part:
            if isinstance(module, nn.Linear):
                width = module.out_features
                bytes += 20 * (module.in_features + 1) * width
                bytes += 4 * len(x) * width
        return bytes

    needs = {}
    for k in range(1, len(model)):
        needs[k] = max(need(model[:k], x.shape[1]), need(model[k:], 0))
    return min(needs, key=needs.get)
