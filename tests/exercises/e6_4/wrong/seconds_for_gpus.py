# mistake: step_seconds are seconds, and gpu_hour is a price for an hour of 3600 of
#   them.
# same as: seconds.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return gpus * gpu_hour * hours * 3600 + hours * waiting_day / 24

    best = min(steps, key=cost)
    return best, cost(best)
