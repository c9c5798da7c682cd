# mistake: waiting_day is the price of a day of 24 hours: divide it by 24.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day)

    best = min(steps, key=cost)
    return best, cost(best)
