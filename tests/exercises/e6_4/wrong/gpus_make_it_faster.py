# mistake: The GPUs share the batch, so more of them do not shorten a step: it takes
#   step_seconds, however many they are.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def cost(size):
        hours = steps[size] * step_seconds / 3600 / math.ceil(size / images_per_gpu)
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=cost)
    return best, cost(best)
