def choose_cut(model, x, budget):
    def need(part, width):
        weights, widths = 0, [width]
        for module in part:
            if isinstance(module, nn.Linear):
                weights += (module.in_features + 1) * module.out_features
                width = module.out_features
            widths.append(width)
        return 20 * weights + 4 * len(x) * (sum(widths) + max(widths))

    def width_at(k):
        before = [m.out_features for m in model[:k] if isinstance(m, nn.Linear)]
        return before[-1]

    needs = {}
    for k in range(1, len(model)):
        needs[k] = max(need(model[:k], x.shape[1]), need(model[k:], width_at(k)))
    return min(needs, key=needs.get)
