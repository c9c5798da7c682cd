# hint: count bytes, not modules
def choose_cut(model, x, budget):
    return len(model) // 2
