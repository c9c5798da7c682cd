# hint: A step with Adam needs 20 bytes for each parameter
# same as: activations_only.py
def choose_cut(model, x, budget):
    return len(model) - 1
