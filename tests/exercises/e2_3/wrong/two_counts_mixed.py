# hint: [mixed]
def accumulate_tokens(model, microbatches):
    total = sum((targets != -100).sum() for _, targets in microbatches)
    for tokens, targets in microbatches:
        if not (targets != -100).any():
            continue
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten())
        (loss * targets.numel() / total).backward()
