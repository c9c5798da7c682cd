def held(model, stage, ranks):
    def size(weights, shared):
        parts = [p.chunk(ranks)[0] if shared else p for p in weights]
        return sum(part.nbytes for part in parts)

    weights = list(model.parameters())
    trained = [p for p in weights if p.requires_grad]
    return {
        "weights": size(weights, shared=stage >= 3),
        "gradients": size(trained, shared=stage >= 2),
        "state": 2 * size(trained, shared=stage >= 1),
    }
