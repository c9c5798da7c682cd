# hint: weighed by its number of sentences
def accumulate_tokens(model, microbatches):
    total = sum(len(tokens) for tokens, _ in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten())
        (loss * len(tokens) / total).backward()
