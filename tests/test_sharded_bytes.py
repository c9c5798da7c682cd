"""What exercises 9.1 and 9.2 count is what PyTorch does, on real ranks."""

import functools
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises.e9_1 import judge, models
from course_lib.exercises.e9_2.costs import StepCosts
from course_lib.launching.launcher import launch

MAKE = {
    "plain": functools.partial(models.plain, 4),
    "uneven": functools.partial(models.Uneven, 8),
    "tied": functools.partial(models.TiedText, 23, 7),
    "mixed": functools.partial(models.TiedText, 23, 7, torch.bfloat16),
}
INPUTS = {"plain": torch.ones(5, 9), "uneven": torch.ones(5, 1, 4, 4)}


def sharded(rank, world_size):
    """For each model what `fully_shard` leaves here after the second backward."""
    dist.init_process_group("gloo")
    return {kind: after_second_backward(kind) for kind in MAKE}


def after_second_backward(kind):
    from torch.distributed.fsdp import fully_shard

    model = MAKE[kind]()
    for layer in model.children():
        if {p.dtype for p in layer.parameters()} == {torch.bfloat16}:
            fully_shard(layer)  # the weights of a group are of one type
    fully_shard(model)
    weights = list(model.parameters())
    adamw = torch.optim.AdamW(weights, lr=0.01)
    for step in range(2):
        if step:
            adamw.step()
            adamw.zero_grad()
        output = model(INPUTS.get(kind, torch.arange(5)))
        cross_entropy(output, torch.zeros(5, dtype=torch.long)).backward()
    averages = [s[k] for s in adamw.state.values() for k in ("exp_avg", "exp_avg_sq")]
    grads = [p.grad for p in weights if p.grad is not None]
    kinds = {"weights": weights, "gradients": grads, "state": averages}
    return {kind: sum(t.to_local().nbytes for t in kinds[kind]) for kind in kinds}


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_fullest_rank_holds_what_fully_shard_leaves_on_rank_0(ranks):
    found = launch(sharded, world_size=ranks)
    assert found[0] == {kind: judge.held(MAKE[kind](), 3, ranks) for kind in MAKE}
    for kind in MAKE:
        most = [max(one[kind][part] for one in found) for part in found[0][kind]]
        assert most == list(found[0][kind].values())


def bytes_of_calls(rank, world_size):
    """What a rank of three sends by the name of a call, of 12 numbers or parts of 4."""
    dist.init_process_group("gloo")
    everyone, costs, sent = dist.group.WORLD, StepCosts(world_size), {}
    whole, part = torch.ones(12), torch.ones(4)
    parts, first = list(torch.ones(3, 4)), rank == 0

    def new(count=3):
        return list(torch.empty(count, 4))

    calls = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_reduce, 16 bits": lambda: dist.all_reduce(whole.bfloat16()),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(*new(1), whole),
        "reduce_scatter": lambda: dist.reduce_scatter(*new(1), parts),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part),
        "all_gather": lambda: dist.all_gather(new(), part),
        "all_to_all_single": lambda: dist.all_to_all_single(whole * 0, whole),
        "all_to_all": lambda: dist.all_to_all(new(), parts),
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "reduce": lambda: dist.reduce(whole, dst=1),
        "gather": lambda: dist.gather(part, new() if first else None),
        "scatter": lambda: dist.scatter(*new(1), parts if first else None),
        "send": lambda: dist.send(whole, 1) if first else None,
        "receive": lambda: dist.recv(whole, 0) if rank == 1 else None,
        "coalesced": lambda: coalesced(parts),
        "functional all_reduce": lambda: functional.all_reduce(whole, "sum", everyone),
        "functional reduce_scatter": lambda: functional.reduce_scatter_tensor(
            whole, "sum", 0, everyone
        ),
        "functional all_gather": lambda: (
            functional.all_gather_tensor(part, 0, everyone) + 1
        ),
        "barrier": dist.barrier,
        "full_tensor of a DTensor": lambda: dtensor(part).full_tensor(),
        "norm of a DTensor": lambda: nn.utils.get_total_norm(
            [dtensor(part)]
        ).full_tensor(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls.items():
            with costs:
                call()
            sent[name] = costs.take_sent()
    return sent


def coalesced(tensors):
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)


def dtensor(part):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return DTensor.from_local(part, mesh, [Shard(0)])


def test_what_is_handed_to_a_collective_counts_as_a_ring_sends_it():
    zero, one, two = launch(bytes_of_calls, world_size=3)
    size = 48  # bytes of 12 numbers
    twice, once = 2 * 2 / 3 * size, 2 / 3 * size
    same = {
        "all_reduce": twice,
        "all_reduce, 16 bits": twice / 2,
        "reduce_scatter_tensor": once,
        "reduce_scatter": once,
        "all_gather_into_tensor": once,
        "all_gather": once,
        "all_to_all_single": once,
        "all_to_all": once,
        "broadcast": once,
        "reduce": once,
        "gather": once / 3,
        "receive": 0,
        "coalesced": twice,
        "functional all_reduce": twice,
        "functional reduce_scatter": once,
        "functional all_gather": once,
        "barrier": 0,
        "full_tensor of a DTensor": once,
        "norm of a DTensor": 2 * 2 / 3 * 4,
    }
    for found in (zero, one, two):
        assert {name: found[name] for name in same} == pytest.approx(same)
    assert [one["send"] for one in (zero, one, two)] == [size, 0, 0]
    assert [one["scatter"] for one in (zero, one, two)] == pytest.approx([once, 0, 0])


def kept(make):
    """Bytes that are kept beside a weight of 100 numbers, after `make(weight)`."""
    weight, costs = nn.Parameter(torch.ones(100)), StepCosts(1)
    with costs:
        weight.grad = torch.ones(100)
        there = make(weight)
    held = costs.held([weight])
    del there
    return held


KEPT = {
    "nothing": (lambda weight: None, 0),
    "a part": (lambda weight: weight.detach()[:25].clone(), 100),
    "a view of the weight": (lambda weight: weight.detach()[:25], 0),
    "a view of a copy": (lambda weight: weight.detach().clone()[:25], 400),
    "what is gone": (lambda weight: len(torch.ones(1000)), 0),
    "in a list": (lambda weight: [torch.zeros(25), {1: torch.zeros(5)}], 120),
    "by foreach": (lambda weight: torch._foreach_mul([weight.detach()], 2), 400),
    "beside a short gradient": (
        lambda weight: setattr(weight, "grad", torch.ones(1).expand(100)),
        0,
    ),
    "beside no gradient": (
        lambda weight: (setattr(weight, "grad", None), torch.ones(10)),
        40,
    ),
    "a larger flat tensor": (
        lambda weight: setattr(weight, "data", torch.ones(150)[:100]),
        200,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_alive_beside_weights_and_gradients_is_counted(name):
    make, right = KEPT[name]
    assert kept(make) == right
