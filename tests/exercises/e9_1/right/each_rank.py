from collections import Counter


def held(model, stage, ranks):
    """Counts on every rank, and takes the one that holds most of all."""
    tensors = {id(p): p for _, p in model.named_parameters(remove_duplicate=False)}
    counts = [Counter(weights=0, gradients=0, state=0) for _ in range(ranks)]
    for p in tensors.values():
        kinds = [("weights", 3, 1)]
        kinds += [("gradients", 2, 1), ("state", 1, 2)] if p.requires_grad else []
        for kind, first, times in kinds:
            parts = p.detach().chunk(ranks) if stage >= first else [p] * ranks
            for count, part in zip(counts, parts):
                count[kind] += times * part.numel() * part.element_size()
    return dict(max(counts, key=Counter.total))
