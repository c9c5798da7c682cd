# hint: still growing while you divide by it
def accumulate_tokens(model, microbatches):
    total = 0
    for tokens, targets in microbatches:
        total += (targets != -100).sum()
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        (loss / total).backward()
