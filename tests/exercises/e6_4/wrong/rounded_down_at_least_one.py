# mistake: The number of GPUs is rounded down, as by `//`: the last images of the
#   batch have no GPU then.
# same as: rounded_down.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = max(1, int(size / images_per_gpu))
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
