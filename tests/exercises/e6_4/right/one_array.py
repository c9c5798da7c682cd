def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    table = np.array(sorted(steps.items()), dtype=float)
    gpus = np.ceil(table[:, 0] / images_per_gpu)
    table[:, 1] *= step_seconds / 3600 * (gpus * gpu_hour + waiting_day / 24)
    return table[np.argmin(table[:, 1])]
