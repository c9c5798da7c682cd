# %% setup
import math
from collections import namedtuple
from datetime import timedelta
import numpy as np
import torch
import torch.distributed as dist
import course_lib as cl
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

# %% answer-6-1
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return min(1, (update + 1) / warmup_steps)

    return LambdaLR(optimizer, factor)

# %% answer-6-2
def find_knee(steps):
    B, s = map(np.array, zip(*sorted(steps.items())))
    slope, least = np.polyfit(1 / B, s, deg=1, w=1 / s)
    return [least, slope / least]

# %% below check-6-2
steps = {32: 1600, 64: 900, 128: 550, 256: 375}
find_knee(steps)

# %% below text-6-4
Deal = namedtuple("Deal", "size cost")

# %% answer-6-4
def cheapest(steps, images_per_gpu, step_seconds, gpu_hour, waiting_day):
    def deal(size):
        time = timedelta(seconds=steps[size] * step_seconds)
        gpu_hours = time / timedelta(hours=1) * math.ceil(size / images_per_gpu)
        waiting = time / timedelta(days=1) * waiting_day
        return Deal(size=size, cost=gpu_hours * gpu_hour + waiting)

    return min(map(deal, steps), key=lambda deal: deal.cost)
