# hint: numel() counts pixels
def accumulate(model, microbatches):
    n = sum(x.numel() for x, y in microbatches)
    model.zero_grad()
    for x, y in microbatches:
        (cross_entropy(model(x), y) * len(x) / n).backward()
