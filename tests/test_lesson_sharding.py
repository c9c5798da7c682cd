"""The code of lessons 09 and 09b that people copy: every form trains as one process.

What each sends is counted by its calls, and what it holds by virtual GPUs.
"""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.optim import AdamW

import course_lib as cl
from tests import lesson_code

BY_HAND = "setup", "data", "zero", "train", "layer", "layers", "fsdp"
AT_WORK = "setup", "data", "held", "peak", "save", "hybrid"
STEPS = 20
CLOSE = 1e-5


@pytest.fixture(scope="module")
def by_hand():
    return lesson_code.defined("09", BY_HAND)


@pytest.fixture(scope="module")
def at_work():
    return lesson_code.defined("09b", AT_WORK)


@pytest.fixture(scope="module")
def one(by_hand):
    """The losses of one process."""
    [losses] = cl.launch(by_hand["train"], by_hand["plain"], STEPS, world_size=1)
    return losses


def off(run, one):
    return (sum(run) / len(run) - one).abs().max().item()


@pytest.mark.parametrize(
    "name, ranks",
    [("ddp", 2), ("zero1", 2), ("zero1", 4), ("fsdp", 2), ("fsdp", 3), ("fsdp", 4)],
)
def test_each_form_has_the_losses_of_one_process(by_hand, one, name, ranks):
    run = cl.launch(by_hand["train"], by_hand[name], STEPS, world_size=ranks)
    assert off(run, one) < CLOSE


def hybrid(model):
    """Shard over two ranks, copy over two."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, AdamW(model.parameters(), lr=0.003)


def kept(model):
    """Gather weights once, as ZeRO-2."""
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=False)
    fully_shard(model)
    return model, AdamW(model.parameters(), lr=0.003)


def linears(model):
    """Let each Linear of the blocks be a group."""
    for layer in model.blocks.modules():
        if type(layer) is nn.Linear:
            fully_shard(layer)
    fully_shard(model)
    return model, AdamW(model.parameters(), lr=0.003)


@pytest.mark.parametrize("wrap, ranks", [(hybrid, 4), (kept, 2), (linears, 2)])
def test_other_forms_of_fully_shard_have_them_too(by_hand, one, wrap, ranks):
    run = cl.launch(by_hand["train"], wrap, STEPS, world_size=ranks)
    assert off(run, one) < CLOSE


@pytest.mark.parametrize(
    "wrap, calls",
    [
        ("zero1", {"all_gather": 1, "reduce_scatter": 1}),
        ("fsdp", {"all_gather": 9, "reduce_scatter": 5}),
        (kept, {"all_gather": 5, "reduce_scatter": 5}),
        (linears, {"all_gather": 33, "reduce_scatter": 17}),
    ],
)
def test_calls_of_a_step_are_those_that_the_lessons_name(by_hand, wrap, calls):
    wrap = by_hand.get(wrap, wrap)
    run = cl.launch(by_hand["train"], wrap, 4, world_size=2, trace=True)
    assert run.trace.select(rank=0).steps()[-1].calls() == calls


def sharded_gradients(rank, world_size, make, size):
    """Two layers by hand and by torch: their gradients, averaged over ranks."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    plain = nn.Sequential(*(nn.Linear(size, size, bias=False) for _ in range(2)))
    net = nn.Sequential(*map(make, plain))
    x = torch.randn(5 + rank, size)
    for model in (net, plain):
        model(x).square().mean().backward()
    found = []
    for own, layer in zip(net, plain):
        dist.all_reduce(layer.weight.grad)
        mean = layer.weight.grad / world_size
        found.append((own.own.grad, mean.chunk(world_size)[rank]))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_layer_by_hand_has_the_gradients_of_a_linear(by_hand, ranks):
    run = cl.launch(sharded_gradients, by_hand["ShardedLinear"], 12, world_size=ranks)
    for own, right in (pair for rank in run for pair in rank):
        torch.testing.assert_close(own, right)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bytes_held_are_those_of_the_formula(at_work, ranks):
    """Between steps 4 + 8 bytes a parameter, 4 more after backward, in shares."""
    parameters = sum(p.numel() for p in at_work["GPT"](width=128).parameters())
    run = cl.launch(at_work["watch"], at_work["blocks"], ranks, world_size=ranks)
    for before, after, peak, _ in run:
        # no more: AdamW counts its steps, in 4 bytes for each parameter
        assert before == pytest.approx(12 * parameters / ranks, rel=0.002)
        assert after == pytest.approx(16 * parameters / ranks, rel=0.002)
        assert peak > after


def test_accumulation_gathers_for_each_micro_batch_and_reduces_once(at_work):
    run = cl.launch(
        at_work["watch"], at_work["blocks"], 4, parts=4, world_size=2, trace=True
    )
    calls = run.trace.select(rank=0).steps()[-1].calls()
    assert calls == {"all_gather": 36, "reduce_scatter": 5}


@pytest.mark.parametrize("first, last", [(2, 3), (3, 1), (1, 2)])
def test_a_checkpoint_of_some_ranks_goes_on_with_others(
    at_work, one, tmp_path, first, last
):
    folder = str(tmp_path)
    train = at_work["train"]
    begun = cl.launch(train, range(6), folder, world_size=first)
    ended = cl.launch(train, range(6, 12), folder, world_size=last)
    losses = torch.cat([sum(begun) / first, sum(ended) / last])
    assert (losses - one[:12]).abs().max() < CLOSE


def test_hsdp_gathers_within_nodes_and_its_bytes_are_all_counted(at_work):
    """On each of four sides: gloo's reduce-scatter is an all-reduce."""
    meter = cl.launch(at_work["backward"], (2, 2), world_size=4, nodes=2).meter
    size = 4 * sum(p.numel() for p in at_work["GPT"]().parameters())
    for rank, row in enumerate(meter.matrix):
        inside, across = row[rank ^ 1], row[rank ^ 2]
        assert across == pytest.approx(size / 2, rel=0.02)
        # two all-gathers, the rest of the model once, and gloo's all-reduce
        assert inside == pytest.approx(2 * size, rel=0.05)
        assert row[rank ^ 3] < 1000
