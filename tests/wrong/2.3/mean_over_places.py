# hint: they must not be in the number that you divide by
# same as: padding_counted.py
def accumulate_tokens(model, microbatches):
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        losses = cross_entropy(logits, targets.flatten(), reduction="none")
        (losses.mean() / len(microbatches)).backward()
