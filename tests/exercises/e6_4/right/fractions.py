from fractions import Fraction


def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    costs = {}
    for size, count in steps.items():
        seconds = Fraction(count) * Fraction(str(step_seconds))
        gpu_seconds = seconds * math.ceil(Fraction(size, images_per_gpu))
        costs[size] = gpu_seconds * Fraction(str(gpu_hour)) / 3600
        costs[size] += seconds * waiting_day / 86400
    size = min(costs, key=costs.get)
    return size, costs[size]
