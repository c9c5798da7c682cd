from contextlib import nullcontext


def accumulate(model, optimizer, microbatches):
    last = len(microbatches) - 1
    for i, (x, y) in enumerate(microbatches):
        with model.no_sync() if i < last else nullcontext():
            loss = cross_entropy(model(x), y) / len(microbatches)
            loss.backward()
    optimizer.step()
    optimizer.zero_grad()
