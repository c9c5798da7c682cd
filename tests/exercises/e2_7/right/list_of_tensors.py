def layer_bytes(batch, length, width, heads, autocast, recompute):
    """Every tensor by its shape and the bytes of its numbers."""
    stream, half = 4, 2 if autocast else 4
    x = (batch, length, width)
    if recompute:
        tensors = [(x, stream)]
    else:
        head = (batch, heads, length, width // heads)
        wide = (batch, length, 4 * width)
        per_token = [((batch, length), 4)] * 4
        tensors = [(x, stream), (x, half), *[(head, half)] * 3, (x, half)]
        tensors += [((batch, heads, length), 4), (x, stream), (x, half)]
        tensors += [(wide, half), (wide, half), *per_token]
        if autocast:
            shapes = (width, 3 * width), (width, width), (width, 4 * width)
            tensors += [(shape, 2) for shape in (*shapes, (4 * width, width))]
    return sum(torch.Size(shape).numel() * size for shape, size in tensors)
