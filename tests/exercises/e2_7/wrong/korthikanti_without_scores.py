# mistake: These are the 34 bytes of a layer in 16 bits with dropout, or close to it. In
#   float32 without dropout other tensors are kept, and each number has 4 bytes.
def layer_bytes(batch, length, width, heads, autocast, recompute):
    sbh = length * batch * width
    if recompute:
        return 4 * sbh
    return 34 * sbh + (24 * width**2 if autocast else 0)
