# %% answer-2-1
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        for x, y in zip(images.chunk(num_microbatches), labels.chunk(num_microbatches)):
            pass  # and now?
    # 2.1: your code, about 10 lines
    raise NotImplementedError
    return losses

# %% answer-2-2
def accumulate(model, microbatches):
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss / len(microbatches)).backward()

# %% below check-2-2
# from yesterday, before the restart
print(old_losses[-1])

# %% answer-2-3
def accumulate_tokens(model, microbatches):
    counts = [int((targets != -100).sum()) for _, targets in microbatches]
    for count, (tokens, targets) in zip(counts, microbatches):
        if count:
            loss = cross_entropy(model(tokens).reshape(-1, 20), targets.reshape(-1))
            (loss * count / sum(counts)).backward()
