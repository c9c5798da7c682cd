import math


def held(model, stage, ranks):
    """Makes the largest parts themselves, on a device that holds no numbers."""

    def cut(tensor):
        return tensor.new_empty(math.ceil(tensor.size(0) / ranks), *tensor.shape[1:])

    weights = [torch.empty_like(p, device="meta") for p in model.parameters()]
    grads = [torch.empty_like(p) for p in model.parameters() if p.requires_grad]
    averages = [torch.zeros_like(p) for p in grads for _ in range(2)]
    if stage >= 1:
        averages = map(cut, averages)
    if stage >= 2:
        grads = map(cut, grads)
    if stage >= 3:
        weights = map(cut, weights)
    kinds = {"weights": weights, "gradients": grads, "state": averages}
    return {kind: sum(t.nbytes for t in every) for kind, every in kinds.items()}
