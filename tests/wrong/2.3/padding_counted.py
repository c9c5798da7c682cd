# hint: they must not be in the number that you divide by
def accumulate_tokens(model, microbatches):
    total = sum(targets.numel() for _, targets in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        (loss / total).backward()
