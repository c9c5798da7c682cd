# mistake: The time is rounded to whole hours or days. Count parts of them, too.
# same as: whole_hours.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * gpus * gpu_hour + math.ceil(hours / 24) * waiting_day

    best = min(steps, key=cost)
    return best, cost(best)
