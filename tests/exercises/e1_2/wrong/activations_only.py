# hint: [parameters]
def choose_cut(model, x, budget):
    sizes = []
    for module in model:
        x = module(x)
        sizes.append(x.nbytes)

    def fuller(k):
        return max(sum(sizes[:k]), sum(sizes[k:]))

    return min(range(1, len(model)), key=fuller)
