# hint: one row of 20 logits for each target
def accumulate_tokens(model, microbatches):
    n = sum((y != -100).sum().item() for x, y in microbatches)
    for x, y in microbatches:
        loss = cross_entropy(model(x), y, reduction="sum")
        (loss / n).backward()
