# mistake: The keys of `steps` are batch sizes, not 0, 1, 2: steps[256] is the number
#   of steps of 256.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    costs = []
    for i in range(len(steps)):
        hours = steps[i] * step_seconds / 3600
        costs.append(hours * waiting_day / 24)
    return costs.index(min(costs)), min(costs)
