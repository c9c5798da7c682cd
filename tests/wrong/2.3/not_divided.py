# hint: the gradient of a sum over tokens
def accumulate_tokens(model, microbatches):
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        loss.backward()
