def attention_part(tokens, width, size):
    # a norm's input, its output, query, key and value, what attention gives
    return tokens * width * (4 + size + 3 * size + size)


def mlp_part(tokens, width, size):
    return tokens * width * (4 + size + 4 * size + 4 * size)


def layer_bytes(batch, length, width, heads, autocast, recompute):
    tokens, size = batch * length, 4
    match bool(autocast), bool(recompute):
        case _, True:
            return tokens * width * 4
        case True, False:
            size = 2
            weights = 12 * width**2 + 9 * width + 4 * width  # biases and norms, too
        case _:
            weights = 0
    kept = attention_part(tokens, width, size) + mlp_part(tokens, width, size)
    return kept + weights * size + 4 * tokens * heads
