# mistake: You stop where the cost rises for the first time. With one more GPU it may
#   rise, and fall again where that GPU is full: compare all sizes.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    best, lowest = None, math.inf
    for size in sorted(steps):
        gpus = math.ceil(size / images_per_gpu)
        hours = steps[size] * step_seconds / 3600
        cost = hours * (gpus * gpu_hour + waiting_day / 24)
        if cost > lowest:
            break
        best, lowest = size, cost
    return best, lowest
