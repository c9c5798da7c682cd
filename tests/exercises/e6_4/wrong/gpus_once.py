# mistake: A price per hour must be multiplied by hours, that of waiting as well.
# same as: waiting_once.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return gpus * gpu_hour + hours / 24 * waiting_day

    best = min(steps, key=cost)
    return best, cost(best)
