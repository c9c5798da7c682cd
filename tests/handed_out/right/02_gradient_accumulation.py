# %% answer-2-1
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


# %% answer-2-2
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()


# %% answer-2-3
def accumulate_tokens(model, microbatches):
    total = sum((targets != -100).sum() for _, targets in microbatches)
    for tokens, targets in microbatches:
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        (loss / total).backward()


# %% answer-2-4
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
        except torch.OutOfMemoryError:
            return False
        finally:
            model.zero_grad()
        return True

    good, bad = 0, len(images) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
