# mistake: You chose by the cost of the GPUs alone. Choose by the whole cost, waiting
#   included.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def gpu_cost(b):
        return steps[b] * math.ceil(b / images_per_gpu)

    def cost(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        return hours * (gpus * gpu_hour + waiting_day / 24)

    best = min(steps, key=gpu_cost)
    return best, cost(best)
