# mistake: This is the dearest of all: max in place of min?
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = max(steps, key=cost)
    return best, cost(best)
