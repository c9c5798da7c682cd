# mistake: Prices may be 0, as of a wait that costs nothing: do not divide by them.
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def worth(size):
        hours = steps[size] * step_seconds / 3600
        gpus = math.ceil(size / images_per_gpu)
        # in days of waiting, whose price all costs have in common
        return hours / 24 + hours * gpus * gpu_hour / waiting_day

    best = min(steps, key=worth)
    return best, worth(best) * waiting_day
