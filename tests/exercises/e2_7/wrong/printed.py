# hint: [no number]
# same as: text
def layer_bytes(batch, length, width, heads, autocast, recompute):
    print(64 * batch * length * width)
