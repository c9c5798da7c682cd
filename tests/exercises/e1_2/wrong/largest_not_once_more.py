# hint: [largest]
def choose_cut(model, x, budget):
    parameters, sizes = [], [x.nbytes]
    for module in model:
        x = module(x)
        parameters.append(5 * sum(p.nbytes for p in module.parameters()))
        sizes.append(x.nbytes)

    def needs(first, last):
        return sum(parameters[first:last]) + sum(sizes[first : last + 1])

    def fuller(k):
        return max(needs(0, k), needs(k, len(model)))

    return min(range(1, len(model)), key=fuller)
