# mistake: The GPUs are not paid.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        return hours * waiting_day / 24

    best = min(steps, key=cost)
    return best, cost(best)
