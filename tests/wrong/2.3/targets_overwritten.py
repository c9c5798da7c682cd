# hint: what was given is still needed
def accumulate_tokens(model, microbatches):
    total = sum((targets != -100).sum() for _, targets in microbatches)
    for tokens, targets in microbatches:
        mask = targets != -100
        targets[~mask] = 0
        logits = model(tokens).flatten(0, 1)
        losses = cross_entropy(logits, targets.flatten(), reduction="none")
        ((losses * mask.flatten()).sum() / total).backward()
