def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    sizes = torch.tensor(list(steps))
    counts = torch.tensor(list(steps.values()), dtype=torch.float32)
    gpus = (sizes + images_per_gpu - 1) // images_per_gpu
    seconds = counts * step_seconds
    costs = seconds / 3600 * gpus * gpu_hour + seconds / 86400 * waiting_day
    cost, i = costs.min(dim=0)
    return sizes[i], cost
