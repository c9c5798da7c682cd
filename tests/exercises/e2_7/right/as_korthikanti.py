def layer_bytes(batch, length, width, heads, autocast, recompute):
    # s b h (34 + 5 a s / h), without dropout's masks and scores; LayerNorms in float32
    s, b, h = length, batch, width
    sbh = s * b * h
    attention = 2 + 6 + 2
    mlp = 2 + 8 + 8
    norms = 4 + 4
    if recompute:
        return sbh * 4.0
    if not autocast:
        return sbh * (2.0 * (attention + mlp) + norms)
    return sbh * float(attention + mlp + norms) + 24.0 * h * h
