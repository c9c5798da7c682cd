# hint: This is the position
# same as: position.py
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    sizes = np.array(sorted(steps))
    hours = np.array([steps[size] for size in sizes]) * step_seconds / 3600
    costs = hours * (np.ceil(sizes / images_per_gpu) * gpu_hour + waiting_day / 24)
    return int(costs.argmin()), float(costs.min())
