# mistake: s b h (34 + 5 a s / h) is for a layer all in 16 bits, with dropout, and with
#   attention that keeps its scores. Here is none of these: count float32 anew.
def layer_bytes(batch, length, width, heads, autocast, recompute):
    sbh = length * batch * width
    if recompute:
        return 2 * sbh
    return sbh * (34 + 5 * heads * length / width)
