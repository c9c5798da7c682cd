# hint: [no number]
def layer_bytes(batch, length, width, heads, autocast, recompute):
    return f"{64 * batch * length * width / 1e6} MB"
