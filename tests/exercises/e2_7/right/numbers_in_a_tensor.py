KEPT = {"norm": 1, "qkv": 3, "attention": 1, "norm 2": 1, "mlp": 4, "gelu": 4}


def layer_bytes(batch, length, width, heads, autocast, recompute):
    of = torch.tensor([batch * length * width], dtype=torch.float64)
    if recompute:
        return (of * torch.float32.itemsize).sum()
    kind = torch.bfloat16 if autocast else torch.float32
    inputs_of_norms = 2 * torch.float32.itemsize * of
    activations = sum(KEPT.values()) * kind.itemsize * of
    linears = sum(out * into for out, into in [(3, 1), (1, 1), (4, 1), (1, 4)])
    copies = linears * width * width * kind.itemsize * autocast
    return (inputs_of_norms + activations + copies).sum()
