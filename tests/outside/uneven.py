"""Join: ranks with unlike numbers of batches end together, with the same weights."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import course_lib as cl

BATCHES = (3, 5)  # of rank 0 and of rank 1


def make():
    torch.manual_seed(0)
    return torch.nn.Linear(6, 2)


def train(rank, world_size, xs):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Join([model]):
        for x in xs[rank][: BATCHES[rank]]:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return model.module.weight.detach().clone()


def together(xs):
    """The same in one process; who has nothing left adds nothing to the mean."""
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(max(BATCHES)):
        optimizer.zero_grad()
        for rank, count in enumerate(BATCHES):
            if step < count:
                (model(xs[rank][step]).square().mean() / len(BATCHES)).backward()
        optimizer.step()
    return model.weight.detach()


def adam(rank, world_size, xs, *, zero):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make())
    one = {"lr": 0.01}
    if zero:
        one |= {"optimizer_class": torch.optim.Adam}
    kind = ZeroRedundancyOptimizer if zero else torch.optim.Adam
    optimizer = kind(model.parameters(), **one)
    for x in xs[rank]:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    own = optimizer.optim if zero else optimizer
    kept = sum(t.numel() for s in own.state.values() for t in s.values())
    return model.module.weight.detach().clone(), kept


xs = torch.randn(2, 5, 4, 6, generator=torch.Generator().manual_seed(1))
for weight in cl.launch(train, xs, world_size=2):
    torch.testing.assert_close(weight, together(xs))

plain, sharded = (cl.launch(adam, xs, world_size=2, zero=zero) for zero in (0, 1))
for (weight, _), (wanted, _) in zip(sharded, plain, strict=True):
    torch.testing.assert_close(weight, wanted)
# the state of a parameter, two moments and a step, is on one rank alone
assert [kept for _, kept in plain] == [2 * 14 + 2] * 2
assert sorted(kept for _, kept in sharded) == [2 * 2 + 1, 2 * 12 + 1]
