def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    costs = {
        size: n * step_seconds / 3600 * math.ceil(size / images_per_gpu) * gpu_hour
        + n * step_seconds / 3600 / 24 * waiting_day
        for size, n in steps.items()
    }
    return sorted(costs.items(), key=lambda item: item[1])[0]
