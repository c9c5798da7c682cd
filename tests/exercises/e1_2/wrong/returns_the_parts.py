# hint: [what a cut is]
# same as: everything_on_one.py
def choose_cut(model, x, budget):
    half = len(model) // 2
    return model[:half], model[half:]
