# hint: The share is upside down
def accumulate(model, microbatches):
    n = sum(len(y) for x, y in microbatches)
    model.zero_grad()
    for x, y in microbatches:
        (cross_entropy(model(x), y) * n / len(y)).backward()
