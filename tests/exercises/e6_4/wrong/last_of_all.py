# mistake: This batch size is the last of `steps`, whatever it costs. Keep the
#   cheapest one seen so far.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    for size, count in steps.items():
        gpus = math.ceil(size / images_per_gpu)
        hours = count * step_seconds / 3600
        cost = hours * (gpus * gpu_hour + waiting_day / 24)
    return size, cost
