# mistake: This is the cost of one GPU, however large the batch. It needs B /
#   images_per_gpu of them, and gpu_hour is the price of each.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        return hours * (gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
