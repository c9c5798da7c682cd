# hint: the steps of one batch size are
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    hours = steps * step_seconds / 3600
    costs = [hours * (math.ceil(b / images_per_gpu) * gpu_hour) for b in steps]
    return min(costs)
