# hint: [largest]
# same as: largest_not_once_more.py
def choose_cut(model, x, budget):
    parameters, sizes = [], [x.nbytes]
    for module in model:
        x = module(x)
        parameters.append(5 * sum(p.nbytes for p in module.parameters()))
        sizes.append(x.nbytes)

    def fuller(k):
        first, second = sizes[: k + 1], sizes[k + 1 :]
        return max(
            sum(parameters[:k]) + sum(first) + max(first),
            sum(parameters[k:]) + sum(second) + max(second),
        )

    return min(range(1, len(model)), key=fuller)
