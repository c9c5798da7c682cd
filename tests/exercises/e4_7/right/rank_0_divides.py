import numpy as np


def evaluate(model, data):
    """One flat tensor of buffers, sums to rank 0 alone, three numbers back from it."""
    module, device = model.module, next(model.parameters()).device
    ranks, rank = dist.get_world_size(), dist.get_rank()
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm1d)]
    tensors = [one for n in norms for one in (n.running_mean, n.running_var)]
    flat = torch.cat(tensors)
    dist.broadcast(flat, 0)
    for one, part in zip(tensors, flat.split([len(one) for one in tensors])):
        one.copy_(part)
    share = -(-len(data) // ranks)
    images, labels = data[rank * share : (rank + 1) * share]
    modes = [(layer, layer.training) for layer in module.modules()]
    module.train(False)
    with torch.no_grad():
        outputs = module(images.to(device)).cpu().double().numpy()
    for layer, mode in modes:
        layer.training = mode
    labels = labels.numpy()
    logs = np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(labels)), labels]
    hits = labels[outputs.argmax(1) == labels] if len(labels) else labels
    sums = np.stack([np.bincount(part, minlength=10) for part in (labels, hits)])
    sums = torch.tensor([*sums.flatten().tolist(), logs.sum()], device=device)
    dist.reduce(sums, dst=0)
    there, right = sums[:10], sums[10:20]
    found = right[there > 0].div(there[there > 0]).mean()
    numbers = torch.stack([sums[20] / len(data), right.sum() / len(data), found])
    dist.broadcast(numbers, src=0)
    return dict(zip(("loss", "accuracy", "recall"), numbers.tolist()))
