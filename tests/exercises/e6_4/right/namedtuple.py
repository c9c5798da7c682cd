from collections import namedtuple
from datetime import timedelta

Deal = namedtuple("Deal", "size cost")


def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def deal(size):
        time = timedelta(seconds=steps[size] * step_seconds)
        gpu_hours = time / timedelta(hours=1) * math.ceil(size / images_per_gpu)
        waiting = time / timedelta(days=1) * waiting_day
        return Deal(size=size, cost=gpu_hours * gpu_hour + waiting)

    return min(map(deal, steps), key=lambda deal: deal.cost)
