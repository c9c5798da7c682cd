# mistake: round() goes down, too, if the next whole number is nearer. Here it is
#   always up.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = max(1, round(size / images_per_gpu))
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
