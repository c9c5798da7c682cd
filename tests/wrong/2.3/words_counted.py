# hint: But 0 is a word
def accumulate_tokens(model, microbatches):
    total = sum((tokens != 0).sum() for tokens, _ in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        (loss / total).backward()
