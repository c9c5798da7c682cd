# hint: [nothing]
def choose_cut(model, x, budget):
    sizes = [20 * sum(p.nbytes for p in module.parameters()) for module in model]
    for k in range(1, len(model)):
        if max(sum(sizes[:k]), sum(sizes[k:])) <= budget:
            return k
