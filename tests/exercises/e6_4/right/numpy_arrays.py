def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    sizes = np.array(list(steps))
    hours = np.array(list(steps.values())) * step_seconds / 3600
    gpus = np.ceil(sizes / images_per_gpu)
    costs = hours * (gpus * gpu_hour + waiting_day / 24)
    i = costs.argmin()
    return sizes[i], costs[i]
