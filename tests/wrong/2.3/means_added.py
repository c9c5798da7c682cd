# hint: The means are added up with nothing to divide them
def accumulate_tokens(model, microbatches):
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        cross_entropy(logits, targets.flatten()).backward()
