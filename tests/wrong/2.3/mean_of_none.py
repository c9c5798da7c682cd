# hint: mean() of reduction='none'
def accumulate_tokens(model, microbatches):
    n = sum((y != -100).sum().item() for x, y in microbatches)
    for x, y in microbatches:
        c = (y != -100).sum().item()
        loss = cross_entropy(
            model(x).flatten(0, 1), y.flatten(), reduction="none"
        ).mean()
        (loss * c / n).backward()
