# mistake: Whole GPUs only: a batch that needs 2.7 of them needs 3. Round up, math.ceil.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = size / images_per_gpu
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
