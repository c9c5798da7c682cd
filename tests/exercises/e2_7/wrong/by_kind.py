# hint: [no number]
# same as: text
def layer_bytes(batch, length, width, heads, autocast, recompute):
    x = 4 * batch * length * width
    return {"norms": 4 * x, "attention": 4 * x, "MLP": 8 * x}
