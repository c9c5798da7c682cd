# hint: Nearly all parameters lie on vgpu:0
# same as: adam_forgotten.py
def choose_cut(model, x, budget):
    return len(model) - 1
