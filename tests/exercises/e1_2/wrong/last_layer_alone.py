# hint: [parameters]
# same as: activations_only.py
def choose_cut(model, x, budget):
    return len(model) - 1
