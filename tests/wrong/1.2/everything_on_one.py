# hint: The cut k is the number of modules
def choose_cut(model, x, budget):
    return len(model)
