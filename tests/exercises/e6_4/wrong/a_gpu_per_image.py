# mistake: This counts one GPU for each image. A GPU takes images_per_gpu at once.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = size
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
