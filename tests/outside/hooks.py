"""DDP whose gradients travel compressed: exactly, as their rank is that of PowerSGD."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

import course_lib as cl

X = torch.randn(6, 2, 24, generator=torch.Generator().manual_seed(1))


def fit(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for x in batches:
        optimizer.zero_grad()
        mse_loss(model(x), x.roll(1, -1)).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def make():
    torch.manual_seed(0)
    return torch.nn.Linear(24, 24)


class Counted:
    """A hook of the notebook's own: it counts the numbers that travel."""

    def __init__(self):
        self.numbers = 0

    def hook(self, group, bucket):
        self.numbers += bucket.buffer().numel()
        work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])


def train(rank, world_size, how):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make())
    counted = Counted()
    if how == "power":
        # two samples: a gradient is the sum of two outer products
        state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    else:
        model.register_comm_hook(None, counted.hook)
    weights = fit(model, X[:, rank : rank + 1])
    ratio = state.compression_stats()[0] if how == "power" else None
    return weights, counted.numbers, ratio


plain = fit(make(), X)
for way in ("own", "power"):
    results = cl.launch(train, way, world_size=2)
    for weights, numbers, ratio in results:
        for mine, theirs in zip(weights, plain, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
        assert numbers == (6 * (24 * 24 + 24) if way == "own" else 0)
        assert ratio is None or ratio > 3
