# hint: the model learns the padding
def accumulate_tokens(model, microbatches):
    total = sum(targets.numel() for _, targets in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        aims = targets.clamp(min=0).flatten()
        loss = cross_entropy(logits, aims, reduction="sum")
        (loss / total).backward()
