# hint: [stays]
kept = []


def layer_bytes(batch, length, width, heads, autocast, recompute):
    tokens = batch * length
    if recompute:
        kept.append(4 * tokens * width)
    elif autocast:
        kept.extend([36 * tokens * width, 24 * width**2])
    else:
        kept.append(64 * tokens * width)
    return sum(kept)
