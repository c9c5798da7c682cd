# hint: a step with Adam needs five times that
# same as: activations_only.py
def choose_cut(model, x, budget):
    return 1
