# hint: [parameters]
# same as: activations_only.py
def choose_cut(model, x, budget):
    held, cut = 0, 0
    for k, module in enumerate(model, 1):
        held += sum(p.nbytes for p in module.parameters())
        if held < budget and k < len(model):
            cut = k
    return cut
