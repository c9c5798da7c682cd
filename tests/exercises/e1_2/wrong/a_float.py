# hint: [what a cut is]
# same as: everything_on_one.py
def choose_cut(model, x, budget):
    return len(model) / 2
