from torch.utils.data import ConcatDataset, DataLoader, TensorDataset


def train(model, optimizer, batches, num_microbatches):
    """One loop over all micro-batches that steps after every k-th."""
    device = next(model.parameters()).device
    data = ConcatDataset([TensorDataset(*batch) for batch in batches])
    loader = DataLoader(data, batch_size=len(batches[0][0]) // num_microbatches)
    losses, running = [], 0.0
    for i, (x, y) in enumerate(loader, start=1):
        loss = cross_entropy(model(x.to(device)), y.to(device)) / num_microbatches
        loss.backward()
        running += loss.item()
        if i % num_microbatches == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(running)
            running = 0.0
    return tuple(losses)
