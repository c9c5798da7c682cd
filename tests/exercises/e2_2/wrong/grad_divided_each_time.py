# mistake: `.grad` is divided after every micro-batch, so what is in it already is
#   divided again and again. Divide once, after the loop.
def accumulate(model, microbatches):
    n = sum(len(y) for x, y in microbatches)
    model.zero_grad()
    for x, y in microbatches:
        cross_entropy(model(x), y, reduction="sum").backward()
        for p in model.parameters():
            p.grad /= n
