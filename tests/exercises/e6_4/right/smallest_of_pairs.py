def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    pairs = []
    for size in steps:
        days = steps[size] * step_seconds / 86400
        gpus = size // images_per_gpu + bool(size % images_per_gpu)
        pairs.append((days * (24 * gpus * gpu_hour + waiting_day), size))
    cost, size = min(pairs)
    return [size, round(cost, 2)]
