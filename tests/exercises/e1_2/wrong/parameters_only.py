# hint: [activations]
def choose_cut(model, x, budget):
    sizes = [sum(p.nbytes for p in module.parameters()) for module in model]

    def fuller(k):
        return max(sum(sizes[:k]), sum(sizes[k:]))

    return max(range(1, len(model)), key=lambda k: (-fuller(k), k))
