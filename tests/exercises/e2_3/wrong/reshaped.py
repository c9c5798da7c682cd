# mistake: reshape and view only cut anew, so logits get mixed up. Classes second:
#   `logits.transpose(1, 2)`, or flatten logits and targets.
def accumulate_tokens(model, microbatches):
    n = sum((y != -100).sum().item() for x, y in microbatches)
    for x, y in microbatches:
        logits = model(x)
        loss = cross_entropy(logits.reshape(len(x), 20, -1), y, reduction="sum")
        (loss / n).backward()
