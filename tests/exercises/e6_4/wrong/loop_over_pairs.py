# mistake: A loop over a dict gives its keys alone. steps.items() gives pairs of batch
#   size and steps.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    costs = {}
    for size, count in steps:
        gpus = math.ceil(size / images_per_gpu)
        hours = count * step_seconds / 3600
        costs[size] = hours * (gpus * gpu_hour + waiting_day / 24)
    best = min(costs, key=costs.get)
    return best, costs[best]
