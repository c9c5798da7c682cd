# hint: only cut anew
def accumulate_tokens(model, microbatches):
    n = sum((y != -100).sum().item() for x, y in microbatches)
    for x, y in microbatches:
        logits = model(x)
        loss = cross_entropy(logits.reshape(len(x), 20, -1), y, reduction="sum")
        (loss / n).backward()
