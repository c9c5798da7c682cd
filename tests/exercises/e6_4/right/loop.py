def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    best = None
    for size, count in steps.items():
        gpus = -(-size // images_per_gpu)
        hours = count * step_seconds / 60 / 60
        cost = gpus * gpu_hour * hours + waiting_day * hours / 24
        if best is None or cost < best[1]:
            best = (size, cost)
    return best
