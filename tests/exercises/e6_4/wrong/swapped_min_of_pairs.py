# hint: The pair is swapped
# same as: swapped.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    return min((cost(size), size) for size in steps)
