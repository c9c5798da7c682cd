"""The model of a training step on many GPUs, where its answer is known."""

import math
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from benchmarks import published_scaling
from benchmarks import scaling as benchmark
from course_lib.accelerators.alpha_beta import ALGORITHMS
from course_lib.accelerators.hardware import Link, achievable
from course_lib.clusters.fake_ranks import fake_ranks
from course_lib.clusters.scaling import (
    Bills,
    Network,
    TrainingStep,
    amdahl,
    buckets,
    gustafson,
    predict,
    strong,
    weak,
)
from course_lib.clusters.sharding import ShardedTraining
from course_lib.errors import UsageError

FAST = Link("fast", bandwidth=100e9, latency=1e-6, source="")
SLOW = Link("slow", bandwidth=10e9, latency=1e-5, source="")
NETWORK = Network(8, FAST, SLOW)
RINGS = Network(8, FAST, SLOW, algorithm="chunked ring")
COUNTS = (1, 2, 8, 16, 64, 256, 1024)
STEP = TrainingStep(0.1, 0.2, (25e6,) * 4, optimizer=0.01)
RING = ALGORITHMS["chunked ring"]


def drawn(seed):
    """A step and a network of any kind."""
    draw = random.Random(seed)
    parts = [draw.uniform(0, 0.5) for _ in range(4)]
    sizes = tuple(draw.uniform(1e3, 1e9) for _ in range(draw.randint(1, 9)))
    step = TrainingStep(*parts[:2], sizes, *parts[2:])
    links = (Link("", draw.uniform(1e9, 1e12), draw.uniform(0, 1e-4), "") for _ in "ab")
    return step, Network(8, *links, ports=draw.choice([None, 1, 4]))


# --- limits


def test_one_gpu_only_computes():
    at = predict(STEP, 1, NETWORK)
    assert (at.seconds, at.compute) == pytest.approx((0.31, 0.31))
    assert (at.communication, at.exposed, at.waiting) == (0, 0, 0)


@pytest.mark.parametrize("network", [Network(8, "ideal", "ideal"), NETWORK])
def test_without_communication_all_gpus_are_as_quick_as_one(network):
    step = STEP if network is not NETWORK else TrainingStep(0.1, 0.2, ())
    assert set(weak(step, COUNTS, network).efficiency.values()) == {1.0}


def test_one_bucket_leaves_after_backward_and_nothing_overlaps():
    at = predict(TrainingStep(0.1, 0.2, (100e6,)), 64, NETWORK)
    assert at.exposed == pytest.approx(at.communication) and at.exposed > 0


def test_all_but_the_last_bucket_may_hide_behind_backward():
    at = predict(STEP, 8, NETWORK)
    assert at.exposed == pytest.approx(RING.seconds(8, 25e6, link=FAST))
    assert at.communication == pytest.approx(4 * at.exposed)


def test_buckets_follow_each_other_on_one_queue():
    # ready at 0.5 and 1 of 0.2 s; each takes 0.3 s: 0.1 + 0.3 + 0.3 is 0.5 too late
    network = Network(2, Link("", 1e9, 0.0, ""))
    step = TrainingStep(0.0, 0.2, (0.3e9, 0.3e9))
    assert predict(step, 2, network).exposed == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(40))
def test_a_step_is_never_quicker_than_its_parts_and_never_slower_than_their_sum(seed):
    step, network = drawn(seed)
    for gpus in COUNTS:
        at = predict(step, gpus, network)
        assert at.seconds >= max(step.compute, step.input)
        assert at.seconds <= step.compute + at.communication + at.waiting + 1e-9
        assert at.seconds == pytest.approx(at.compute + at.exposed + at.waiting)


@pytest.mark.parametrize("seed", range(40))
def test_more_nodes_are_never_more_efficient(seed):
    shares = list(
        weak(*drawn(seed)[:1], COUNTS[2:], drawn(seed)[1]).efficiency.values()
    )
    assert shares == sorted(shares, reverse=True)


def test_a_bucket_leaves_when_its_gradients_are_there_not_when_its_bytes_are():
    network = Network(2, Link("", 1e9, 0.0, ""))
    early = TrainingStep(0.0, 1.0, (0.3e9, 0.1e9), ready=(0.1, 1.0))
    late = TrainingStep(0.0, 1.0, (0.3e9, 0.1e9))  # the first at 3/4
    assert predict(early, 2, network).exposed == pytest.approx(0.1)
    assert predict(late, 2, network).exposed == pytest.approx(0.15)


def test_a_loader_that_is_too_slow_sets_the_pace():
    at = predict(TrainingStep(0.1, 0.2, (1e6,), input=0.5), 8, NETWORK)
    assert at.seconds == 0.5 and at.waiting == pytest.approx(0.2 - at.exposed)


def test_what_runs_beside_backward_may_slow_it():
    network = Network(2, Link("", 1e9, 0.0, ""))
    free = TrainingStep(0.0, 1.0, (0.1e9, 0.1e9))
    shared = TrainingStep(0.0, 1.0, (0.1e9, 0.1e9), drag=2.0)
    # the first all-reduce, of 0.1 s, makes backward 0.2 s longer
    assert predict(free, 2, network).seconds == pytest.approx(1.1)
    assert predict(shared, 2, network).seconds == pytest.approx(1.3)


# --- two levels of links


def test_an_all_reduce_over_nodes_is_a_ring_inside_and_one_between():
    inside = RING.seconds(8, 80e6, link=FAST)
    between = RING.seconds(4, 10e6, link=SLOW)
    seconds = RINGS.all_reduce(80e6, gpus=32)
    assert seconds == pytest.approx(inside + between)
    shared = replace(RINGS, ports=1).all_reduce(80e6, gpus=32)
    # 8 GPUs share one port: as if each had a tensor 8 times as large to send
    assert shared - seconds == pytest.approx(7 * 1.5 * 10e6 / 10e9)


@pytest.mark.parametrize(("nodes", "quicker"), [(4, "rings"), (512, "trees")])
def test_between_nodes_goes_what_is_quicker_of_a_ring_and_a_tree(nodes, quicker):
    ways = {"rings": RINGS, "trees": replace(RINGS, algorithm="double binary tree")}
    times = {name: way.all_reduce(80e6, gpus=8 * nodes) for name, way in ways.items()}
    assert min(times, key=times.get) == quicker
    assert NETWORK.all_reduce(80e6, gpus=8 * nodes) == times[quicker]


@pytest.mark.parametrize("gpus", [0, -8, 12, 2.0, "8", None])
def test_gpus_that_do_not_fill_nodes_are_refused(gpus):
    with pytest.raises(UsageError, match=f"place {gpus!r} GPUs on nodes of 8"):
        NETWORK.all_reduce(1e6, gpus=gpus)


def test_links_are_found_by_name_and_unknown_ones_refused():
    at = predict(STEP, 16, Network(8, "nvlink 3.0", "InfiniBand"))
    assert at.exposed > 0
    with pytest.raises(UsageError, match="cannot look up the link 'rope'"):
        predict(STEP, 16, Network(8, "rope"))


def test_gradients_are_cut_as_ddp_cuts_them():
    assert buckets("102 MB") == (2**20, *[25 * 2**20] * 3, 102_000_000 - 76 * 2**20)
    assert buckets(1000) == (1000,)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"forward": -1}, "each time is 0 or more seconds"),
        ({"backward": float("nan")}, "each time is 0 or more"),
        ({"ready": (0.5, 0.7, 1)}, "2 buckets with 3 times in `ready`"),
    ],
)
def test_a_step_that_cannot_be_is_refused(step, words):
    with pytest.raises(UsageError, match=words):
        TrainingStep(**{"forward": 0.1, "backward": 0.1, "buckets": (1, 1)} | step)


# --- curves


def test_strong_scaling_without_communication_follows_amdahl():
    step = TrainingStep(0.3, 0.6, (), optimizer=0.1)
    speedup = strong(step, COUNTS, NETWORK).speedup
    assert speedup == pytest.approx({n: amdahl(0.1, n) for n in COUNTS})


def test_laws_of_amdahl_and_gustafson():
    assert amdahl(0, 64) == gustafson(0, 64) == 64
    assert amdahl(1, 64) == gustafson(1, 64) == 1
    assert amdahl(0.05, 10**9) == pytest.approx(20)
    assert amdahl(0.5, 4) == pytest.approx(1.6) and gustafson(0.5, 4) == 2.5


def test_strong_scaling_ends_where_weak_scaling_goes_on():
    ways = {scale: scale(STEP, COUNTS, NETWORK).efficiency for scale in (weak, strong)}
    assert ways[weak][1024] > 0.8 > 0.05 > ways[strong][1024]


def test_a_curve_shows_its_table_and_says_that_it_is_modelled():
    curve = weak(TrainingStep(0.1, 0.2, (1e9,)), [1, 16], NETWORK)
    html = curve._repr_html_()
    assert "<caption>weak scaling, modelled</caption>" in html
    share = curve.efficiency[16]
    assert f"{16 * share:.1f}</td><td>{share:.0%}</td>" in html
    assert repr(curve) == f"<ScalingCurve weak, modelled: 100% on 1, {share:.0%} on 16>"
    assert "16 GPUs, modelled: " in repr(curve.predictions[1])


def test_the_fastest_number_of_gpus_is_seldom_the_cheapest():
    bills = weak(STEP, [1, 8, 64], NETWORK).bill(lambda n: 36e6 / n, price=2.0)
    hours, price = bills.by_gpus[1]
    assert (hours, price) == pytest.approx((3100, 6200))
    assert (bills.fastest, bills.cheapest) == (64, 1)
    rows = re.findall(r"<b>(\d+)</b>.*?<td>(\w*)</td></tr>", bills._repr_html_())
    assert rows == [("1", "cheapest"), ("8", ""), ("64", "fastest")]
    assert Bills({1: (2, 2), 2: (1, 2)}).cheapest == 2


# --- one rank of many


def sharded():
    # on the CPU, also where another test has made virtual GPUs
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(3)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def test_fsdp_on_1024_ranks_moves_half_as_much_again_as_ddp():
    with fake_ranks(1024) as calls:
        sharded()(torch.ones(1, 1024)).sum().backward()
    whole = 3 * 1025 * 1024 * 4
    sums = Counter()
    for call in calls:
        sums[call.name] += call.bytes
    assert sums == {"all_gather": 2 * whole, "reduce_scatter": whole}
    assert {len(call.ranks) for call in calls} == {1024}
    told = "<FakeCalls 6 all_gather of 25.2 MB; 3 reduce_scatter of 12.6 MB>"
    assert repr(calls) == told
    assert "<b>all_gather</b></td><td>1,024</td><td>6</td>" in calls._repr_html_()


def test_nothing_of_fake_ranks_stays():
    with fake_ranks(4, rank=3):
        assert (dist.get_rank(), dist.get_world_size()) == (3, 4)
    with pytest.raises(ZeroDivisionError), fake_ranks(8):
        _ = 1 / 0
    assert not dist.is_initialized()


def test_fake_ranks_are_refused_where_a_group_is():
    words = "1,024 fake ranks: this process"
    with fake_ranks(4), pytest.raises(UsageError, match=words), fake_ranks(1024):
        pass


# --- the benchmark


def launches(error=1.0):
    """Times that the model itself has made, those of DDP wrong by a factor."""
    wires = Network(2, Link("", 2e9, 1e-4, ""))
    sizes = {name: [1e6, 2e6, 2e6] for name in benchmark.MODELS}
    every = {1: {}, 2: {}}
    for n, times in every.items():
        for scale, name in enumerate(benchmark.MODELS, 1):
            parts = dict(zip(benchmark.PARTS, (0.004 * scale, 0.008 * scale, 0.001)))
            times |= {(name, part): time for part, time in parts.items()}
            held = {"added": 0.2e-9, "drag": 1.5}
            step = benchmark.step_of(times, name, sizes=sizes[name], **held)
            wrong = 1.0 if name == benchmark.FITTED else error
            times[name, "DDP"] = predict(step, n, wires).seconds * wrong
        for size in benchmark.SIZES * (n == 2):
            times["all_reduce", size] = wires.all_reduce(size, gpus=2)
    return [every] * 3, sizes


@pytest.mark.parametrize(("error", "told"), [(1.0, "3 of 3"), (1.25, "0 of 3")])
def test_the_benchmark_finds_the_constants_that_times_were_made_of(error, told):
    rows = benchmark.describe(*launches(error)).splitlines()
    assert "| 100 | 0.5 | 0.2 | 1.5 |" in rows
    own = [row for row in rows if "(predicted)" in row]
    assert len(own) == 4 and all(row.endswith(f"| {told} |") for row in own)


def test_all_published_curves_have_a_source_and_a_model():
    rows = list(published_scaling.read_table(published_scaling.TABLE))
    curves = [published_scaling.curve(row) for row in rows]
    assert len(rows) >= 4 and len({row["source"] for row in rows}) >= 4
    for row, (found, model) in zip(rows, curves):
        assert f"- {row['source'].split()[0]}" in published_scaling._LEFT_OUT
        assert list(found) == [at.gpus for at in model.predictions]
        assert found[min(found)] == 1 == published_scaling.relative(model)[min(found)]


def test_most_gradients_of_vgg_are_ready_when_backward_has_hardly_begun():
    sizes, ready = published_scaling.buckets_of_vgg()
    assert sum(sizes) == 4 * 138_357_544 and ready[-1] == 1
    assert sum(sizes[:3]) > 0.85 * sum(sizes) and ready[2] < 0.01


def llm(**others):
    return ShardedTraining(
        **{"parameters": 7e9, "layers": 32, "tokens": 2**22} | others
    )


def test_fsdp_hides_what_it_sends_above_as_many_tokens_as_flops_for_a_byte():
    """6 FLOPs of a parameter and token, 3 x 2 bytes of a parameter: both 6."""
    flops = achievable("H100").flops["bfloat16"]
    network = Network(inside=ideal(450e9), between=ideal(450e9))
    for parameters in (1e9, 70e9):
        for gpus in (8, 64, 512):
            # a ring keeps one share of `gpus` at home
            few = flops / 450e9 * (gpus - 1) / gpus
            for factor, hidden in ((0.99, False), (1.01, True)):
                tokens = factor * few * gpus
                job = llm(parameters=parameters, tokens=tokens)
                computed = job.compute(gpus)
                assert (sum(job.sent(gpus, network)) <= computed) == hidden
                waited = job.step(gpus, network) / computed - 1
                assert waited == pytest.approx(0 if hidden else 1 / 0.99 - 1)


def ideal(bandwidth):
    return Link("", bandwidth, 0.0, "")


def test_hsdp_sends_two_copies_between_nodes_where_fsdp_sends_three():
    """With many nodes and slow links; each ring keeps one share at home."""
    network = Network(inside=ideal(math.inf), between=ideal(1e9), ports=1)
    job, nodes, whole = llm(), 64, 14.0  # seconds of 14 GB
    fsdp = sum(job.sent(8 * nodes, network))
    hsdp = sum(job.sent(8 * nodes, network, hybrid=True))
    assert fsdp == pytest.approx(3 * whole * (8 * nodes - 1) / (8 * nodes))
    assert hsdp == pytest.approx(2 * whole * (nodes - 1) / nodes)


def test_rings_over_all_gpus_wait_for_each_hop_and_those_within_a_node_do_not():
    slow = Link("", math.inf, 1e-3, "")
    rings = "chunked ring"
    network = Network(inside=ideal(math.inf), between=slow, algorithm=rings)
    job = llm(layers=10)
    ring = 10 * 63 * 1e-3 / 8
    assert job.sent(64, network) == pytest.approx((ring, 2 * ring))
    all_reduce = 2 * 10 * 7 * 1e-3
    assert job.sent(64, network, hybrid=True) == pytest.approx((0, all_reduce))


def test_on_one_node_both_forms_are_the_same_and_on_one_gpu_nothing_is_sent():
    job, network = llm(), Network()
    assert job.sent(8, network) == job.sent(8, network, hybrid=True)
    assert job.sent(1, network) == (0, 0)
    assert job.step(1, network) == pytest.approx(job.compute(1))


def test_what_is_sent_in_backward_hides_beside_backward_alone():
    """HSDP's all-reduce takes as long as all computing: a third of it is waited for."""
    network = Network(inside=ideal(math.inf), between=ideal(1e9), ports=1)
    _, sent = llm().sent(512, network, hybrid=True)
    tokens = 2**22 * sent / llm().compute(512)
    job = llm(tokens=tokens)
    computed = job.compute(512)
    assert job.step(512, network, hybrid=True) == pytest.approx(4 / 3 * computed)


@pytest.mark.parametrize("name", ["parameters", "layers", "tokens", "bytes"])
@pytest.mark.parametrize("number", [0, -1, math.nan, math.inf])
def test_a_training_without_size_is_refused(name, number):
    with pytest.raises(UsageError, match=f"{name} must be more than 0"):
        llm(**{name: number})


def test_gpus_that_do_not_fill_their_nodes_are_refused():
    with pytest.raises(UsageError, match="cannot place 12 GPUs on nodes of 8"):
        llm().sent(12, Network())
