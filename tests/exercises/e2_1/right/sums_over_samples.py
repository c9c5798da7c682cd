def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device

    def step(images, labels):
        total = 0.0
        for x, y in zip(
            images.tensor_split(num_microbatches),
            labels.tensor_split(num_microbatches),
        ):
            predicted = model(x.to(device))
            loss = cross_entropy(predicted, y.to(device), reduction="sum")
            (loss / len(images)).backward()
            total += loss.item() / len(images)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return [step(*batch) for batch in batches]
