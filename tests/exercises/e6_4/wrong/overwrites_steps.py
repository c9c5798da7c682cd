# hint: Whoever calls cheapest still needs
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    for size, count in steps.items():
        gpus = math.ceil(size / images_per_gpu)
        hours = count * step_seconds / 3600
        steps[size] = hours * (gpus * gpu_hour + waiting_day / 24)
    best = min(steps, key=steps.get)
    return best, steps[best]
