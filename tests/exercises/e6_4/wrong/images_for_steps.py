# mistake: `steps` counts optimizer steps, not images: a step of a larger batch takes
#   as long as one of a small batch, on more GPUs.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * size * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
