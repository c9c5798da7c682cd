# hint: [what a cut is]
def choose_cut(model, x, budget):
    return len(model)
