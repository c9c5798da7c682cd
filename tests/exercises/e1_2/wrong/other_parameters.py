# hint: Keep the parameters of the function
def choose_cut(model, budget):
    return 3
