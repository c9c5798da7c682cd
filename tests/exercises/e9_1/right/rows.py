def held(model, stage, ranks):
    held = {"weights": 0, "gradients": 0, "state": 0}
    for p in model.parameters():
        rows = (p.shape[0] + ranks - 1) // ranks
        part = rows * (p.numel() // p.shape[0]) * p.element_size()
        whole = p.numel() * p.element_size()
        held["weights"] += part if stage == 3 else whole
        if p.requires_grad:
            held["gradients"] += part if stage in (2, 3) else whole
            held["state"] += 2 * part if stage else 2 * whole
    return held
