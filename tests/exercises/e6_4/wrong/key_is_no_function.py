# mistake: The key of min() is a function of the batch size, not a cost: key=cost.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    for size in steps:
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        cost = hours * (gpus * gpu_hour + waiting_day / 24)
    best = min(steps, key=cost)
    return best, cost
