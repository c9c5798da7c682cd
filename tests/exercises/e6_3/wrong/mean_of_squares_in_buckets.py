# mistake: A mean over elements weighs short tensors like long ones: a squared norm is
#   a sum.
# same as: mean_of_squares.py
def noise_scale(rank, world_size, model, batches):
    small = []

    def hook(state, bucket):
        small.append(bucket.buffer().square().mean().item())
        return default_hooks.allreduce_hook(state, bucket)

    model.register_comm_hook(None, hook)
    big = 0.0
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        big += sum(p.grad.square().mean().item() for p in model.parameters())
    norms = torch.tensor([sum(small), big], dtype=torch.float64, device=images.device)
    dist.all_reduce(norms)
    small, big = (norms / (world_size * len(batches))).tolist()
    b = len(labels)
    B = world_size * b
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
