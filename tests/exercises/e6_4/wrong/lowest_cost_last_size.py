# hint: [of another]
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    lowest = math.inf
    for size, count in steps.items():
        gpus = math.ceil(size / images_per_gpu)
        hours = count * step_seconds / 3600
        lowest = min(lowest, hours * (gpus * gpu_hour + waiting_day / 24))
    return size, lowest
