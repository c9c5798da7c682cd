def accumulate_tokens(model, microbatches):
    total = sum((targets != -100).sum() for _, targets in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten())
        (loss * (targets != -100).sum() / total).backward()
