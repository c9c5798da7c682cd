# mistake: This batch size has the fewest steps, so it saves the most time. The GPUs
#   for it cost more than that time is worth.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=steps.get)
    return best, cost(best)
