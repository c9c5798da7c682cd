# mistake: Half of the modules is not half of the bytes: count bytes, not modules.
def choose_cut(model, x, budget):
    return len(model) // 2
