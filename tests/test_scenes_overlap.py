"""A measured step as a scene: gradients, their buckets, what lies under backward."""

import json
import math
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import course_lib as cl
from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.launching.results import Results
from course_lib.scenes import overlap_steps as steps
from course_lib.scenes.scene import payload
from course_lib.tracing.events import Event, Trace

ZERO = 1_700_000_000.0  # seconds of the clock, when the traces here begin
MB = 1_000_000


def run(*sent, sizes=(4 * MB, 4 * MB, MB), zero=ZERO):
    """Backward from 0.1 s on, a gradient each 10 ms; of `sent` starts, stops, bytes."""
    back = 0.1 + 0.01 * len(sizes)
    last = max((stop for _, stop, _ in sent), default=back)
    events = [
        Event(0, "compute", "forward", 0.05, 0.1),
        Event(0, "compute", "backward", 0.1, back),
        *(Event(0, "communicate", "all_reduce", *row) for row in sent),
        Event(0, "compute", "optimizer", last + 0.01, last + 0.02),
    ]
    return Trace(tuple(events), "measured: 2 ranks", zero=zero), marks(sizes)


def marks(sizes, start=0.11):
    return [(f"layer.{i}", n, ZERO + start + 0.01 * i) for i, n in enumerate(sizes)]


def items(scene, word, moment=-1):
    return {i.id: i for i in scene.moments[moment].items if word in i.id.split()}


def pins(scene):
    return [item.tip for item in items(scene, "pin").values()]


OWN = run((0.121, 0.15, 8 * MB), (0.14, 0.16, MB))


def test_a_gradient_falls_when_it_comes_and_fills_its_bucket():
    scene = scenes.overlap({"own": OWN})
    titles = [moment.title for moment in scene.moments]
    assert titles[0] == "0 ms: backward begins."
    number = titles.index("10 ms: own: layer.0 comes, bucket 1 holds 4 MB of 8 MB.")
    before, after = (items(scene, "gradient", n) for n in (number - 1, number))
    name = "0 gradient 0"
    assert "gone" in before[name].role and "gone" not in after[name].role
    assert before[name].y < after[name].y
    assert f"20 ms: own: layer.1 comes, bucket 1 is full ({8} MB)." in titles
    high = [items(scene, "gradient")[f"0 gradient {i}"].h for i in range(3)]
    assert high[0] * 2 == high[1] == high[2]  # half full, full, full


def test_a_gradient_stands_where_its_hook_ran_on_the_clock_of_the_trace():
    found = items(scenes.overlap({"own": OWN}), "pin")
    assert [item.x for item in found.values()] == pytest.approx([10, 20, 30], abs=1e-3)
    assert pins(scenes.overlap({"own": OWN}))[0] == "own: layer.0, 4 MB"


def test_a_bucket_leaves_as_its_all_reduce():
    scene = scenes.overlap({"own": OWN})
    titles = [moment.title for moment in scene.moments]
    number = titles.index("21 ms: own: all-reduce 1 (8 MB) begins.")
    before, after = (items(scene, "send", n)["0 send 0"] for n in (number - 1, number))
    assert before.y < after.y and "gone" in before.role
    assert (after.x, after.w) == (pytest.approx(21), pytest.approx(29))
    assert after.tip == "own: all-reduce 1, 8 MB: layer.0 and layer.1"
    ways = items(scene, "way")
    assert ways["0 way 1"].tip == "own: bucket 1 leaves 1 ms after its last gradient"
    assert ways["0 way 2"].tip == "own: bucket 2 leaves 10 ms after its last gradient"


def test_the_title_says_the_share_under_backward_and_the_figure_what_is_left():
    scene = scenes.overlap({"own": OWN, "late": run((0.14, 0.17, 9 * MB))})
    # 9 of 39 ms: from 21 to 30 ms of backward
    told = "own 23 % of 39 ms, late 0 % of 30 ms"
    assert scene.moments[-1].title == f"Communication under backward: {told}."
    after = [item.text for item in items(scene, "after").values()]
    ends = [f"sends until {n} ms after the last gradient" for n in (30, 40)]
    assert after == ends


@pytest.mark.parametrize("name", ["add", "backward"])
def test_only_backward_hides_and_behind_the_last_gradient_nothing(name):
    trace, noted = OWN
    busy = Event(0, "compute", name, 0.13, 0.16)  # DDP copies averages in backward
    trace = Trace((*trace, busy), "", zero=ZERO)
    assert "23 % of 39 ms" in scenes.overlap((trace, noted)).moments[-1].title


def test_the_wait_for_another_rank_belongs_to_the_all_reduce():
    trace, noted = run((0.125, 0.15, 9 * MB), sizes=(4 * MB, 5 * MB))
    wait = Event(0, "wait", "all_reduce", 0.121, 0.125)
    scene = scenes.overlap((Trace((*trace, wait), "", zero=ZERO), noted))
    found = items(scene, "send")
    assert found["0 send 0 wait"].w == pytest.approx(4)
    assert found["0 send 0"].x == pytest.approx(25)
    assert items(scene, "way")["0 way 1"].tip.startswith("bucket 1 leaves 1 ms")


def test_runs_begin_at_their_own_backward_on_one_scale():
    later = tuple(
        Event(e.rank, e.kind, e.name, e.start + 7, e.stop + 7, e.bytes) for e in OWN[0]
    )
    shifted = Trace(later, "measured", zero=ZERO - 7), OWN[1]
    scene = scenes.overlap({"one": OWN, "other": shifted})
    bars = [item for item in items(scene, "bar").values() if "backward" in item.role]
    assert [bar.x for bar in bars] == pytest.approx([0, 0])
    assert bars[0].y < bars[1].y
    assert [i.w for i in bars] == pytest.approx([30, 30])


def test_what_comes_later_is_veiled_until_the_end():
    moments = scenes.overlap({"own": OWN}).moments
    veils = [items_.x for m in moments for items_ in m.items if "veil" in items_.id]
    assert veils == sorted(veils) and len(veils) == len(moments) - 1


# --- which all-reduce carried which gradient


def ready(*sizes):
    return [steps.ReadyGradient(f"{i}", n, 0.1 * i) for i, n in enumerate(sizes)]


def sent(*rows):
    """All-reduces of (start, bytes)."""
    return [
        steps.Travel("all_reduce", count, start, start, start + 1, number)
        for number, (start, count) in enumerate(rows, 1)
    ]


@pytest.mark.parametrize(
    ("sizes", "ways", "told"),
    [
        ([4, 5, 6], [(0.15, 9), (0.25, 6)], {1: [0, 1], 2: [2]}),
        ([4, 5, 6], [(0.25, 15)], {1: [0, 1, 2]}),
        # another one between: of a loss
        ([4, 5, 6], [(0.15, 9), (0.16, 1), (0.25, 6)], {1: [0, 1], 3: [2]}),
        # a loop over all parameters behind backward
        ([4, 5, 6], [(1, 6), (2, 5), (3, 4)], {1: [2], 2: [1], 3: [0]}),
        # equal ones are told by their times
        ([4, 4], [(0.05, 4), (0.15, 4)], {1: [0], 2: [1]}),
        ([4, 0, 6], [(0.15, 4), (0.25, 6)], {1: [0, 1], 2: [2]}),
        ([7], [(0.5, 7)], {1: [0]}),
        # and not
        ([4, 5, 6], [(0.15, 9)], steps.ODD),
        ([4, 5, 6], [(0.15, 8), (0.25, 7)], steps.ODD),
        ([4, 5], [(0.15, 18)], steps.ODD),
        ([4, 4, 4], [(1, 4), (2, 4), (3, 4)], steps.OPEN),
        ([4], [(1, 4), (2, 4)], steps.OPEN),
        ([4, 5], [(0.05, 9)], steps.EARLY),
        ([4, 5], [], steps.UNSENT),
        ([4, 5], [(-1, 3)], steps.UNSENT),
    ],
)
def test_bytes_and_order_tell_which_gradients_an_all_reduce_carries(sizes, ways, told):
    assert steps.carried(ready(*sizes), sent(*ways)) == told


def test_forty_gradients_in_forty_all_reduces_are_found_at_once():
    sizes = [1000 + i for i in range(40)]
    found = steps.carried(
        ready(*sizes), sent(*((9 + i, n) for i, n in enumerate(sizes)))
    )
    assert found == {i + 1: [i] for i in range(40)}
    # as many answers as there can be: still only two are looked for
    assert steps.carried(ready(*[4] * 40), sent(*((9, 4) for _ in range(80)))) == (
        steps.OPEN
    )


def test_what_is_not_told_has_no_line_and_says_so():
    scene = scenes.overlap({"own": run((0.14, 0.16, 5 * MB))})
    assert not items(scene, "way") and not items(scene, "gradient").get("0 gradient 0")
    assert len(pins(scene)) == 3
    assert all(f"in no known all-reduce: {steps.ODD}" in tip for tip in pins(scene))
    assert f"own: gradients in no known all-reduce, {steps.ODD}" in scene.source
    assert items(scene, "send")["0 send 0"].tip == "own: all-reduce 1, 5 MB"


def test_each_backward_of_an_accumulation_is_looked_at_alone():
    sizes = (4 * MB, MB)
    events = [
        Event(0, "compute", "backward", 0.1, 0.13),
        Event(0, "compute", "backward", 0.2, 0.23),
        Event(0, "communicate", "all_reduce", 0.225, 0.25, 5 * MB),
    ]
    noted = [*marks(sizes), *marks(sizes, start=0.21)]
    scene = scenes.overlap((Trace(tuple(events), "", zero=ZERO), noted))
    told = [steps.UNSENT in tip for tip in pins(scene)]
    assert told == [True, True, False, False]
    [way] = items(scene, "way").values()
    assert way.tip.startswith("bucket 1 leaves 5 ms")


# --- what is played, and what cannot be


def three_steps():
    """Backward takes 10, 30, 20 ms; the optimizer ends each step."""
    events, now = [Event(0, "compute", "optimizer", 0, 0.01)], 0.01
    for wide in (0.01, 0.03, 0.02):
        back = Event(0, "compute", "backward", now, now + wide)
        events += [
            back,
            Event(0, "compute", "optimizer", now + wide, now + wide + 0.01),
        ]
        now += wide + 0.01
    return Trace(tuple(events), "measured", zero=ZERO)


def backward_of(scene):
    return [i.w for i in items(scene, "bar").values() if "backward" in i.role]


def test_the_median_step_is_played_or_the_one_asked_for():
    trace = three_steps()
    scene = scenes.overlap({"own": trace})
    assert backward_of(scene) == [pytest.approx(20)]
    title = items(scene, "title")["0 title"].text
    assert title == "own: rank 0, step 2 of 3, the median"
    assert backward_of(scenes.overlap(trace, step=1)) == [pytest.approx(30)]
    for wrong in (3, -1, True, "1", 1.0):
        with pytest.raises(UsageError, match=r"no step .*: `trace.steps\(\)` has 3"):
            scenes.overlap(trace, step=wrong)


def test_another_rank_does_not_change_the_step():
    events = (Event(1, "compute", "optimizer", 0, 9), *three_steps())
    scene = scenes.overlap(Trace(events, "measured"))
    assert backward_of(scene) == [pytest.approx(20)]


def test_a_trace_alone_shows_what_is_sent_and_says_that_marks_are_missing():
    scene = scenes.overlap({"own": OWN[0], "DDP": OWN})
    assert "own: no marks of gradients in this step" in scene.source
    assert "DDP: no marks" not in scene.source
    assert items(scene, "send") and "gradients: when their hooks ran" in scene.source
    assert not any(name.startswith("0 gradient") for name in items(scene, "gradient"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "there is no trace to draw"),
        ({"own": None}, "own: there is no trace to draw: launch with trace=True"),
        ({"own": Trace((), "measured")}, "own: the trace holds no events"),
        ({"own": (Trace((), "measured"), [])}, "own: the trace holds no events"),
        ({"own": 3}, "own: expected a trace, or .* found int"),
        ({"own": OWN[0].events}, "own: expected a trace, or .* found tuple"),
        ({str(i): OWN for i in range(4)}, "cannot show 4 runs: .* room for 3"),
        ((OWN[0], None), "expected .name, bytes, time.time...; found|found None"),
        ((OWN[0], [("a", 1)]), r"expected \(name, bytes, time.time\(\)\)"),
        ((OWN[0], [("a", "1", ZERO)]), "as a hook of register_post_accumulate_grad"),
        ((OWN[0], [("a", 1, math.nan)]), "expected .name"),
        ((OWN[0], [("a", -1, ZERO)]), "expected .name"),
        (
            (OWN[0], marks([1], start=900.0)),
            "no mark lies in the trace: note time.time",
        ),
        ((Trace(OWN[0].events, "modelled"), OWN[1]), "nobody knows when this trace"),
        (
            (Trace((Event(0, "wait", "x", 5.0, math.nan),), ""), []),
            "x has no time",
        ),
        (run(sizes=[1] * 41), "cannot show 41 gradients: the figure has room for 40"),
        (
            {str(i): run(sizes=[1] * 40) for i in range(3)},
            "cannot show 120 gradients: the figure has room for 80",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(given, words):
    with pytest.raises(UsageError, match=words):
        scenes.overlap(given)


def test_results_lead_to_their_trace():
    results = Results([1], output=[], seconds=1, trace=OWN[0], meter=None, title="")
    with pytest.raises(UsageError, match="found Results: give its `.trace`"):
        scenes.overlap({"own": results})


def crowded(count, per):
    """As many gradients as this, so many in an all-reduce, each waited for."""
    sizes = [65_536 + i for i in range(count)]
    rows = [
        (0.1004 + 0.01 * min(count, i + per), sum(sizes[i : i + per]))
        for i in range(0, count, per)
    ]
    trace, noted = run(*((at + 0.001, at + 0.015, n) for at, n in rows), sizes=sizes)
    waits = (Event(0, "wait", "all_reduce", at, at + 0.001) for at, _ in rows)
    small = (
        Event(0, "compute", f"op {i} {'ß' * 40}", 0.2 + i / 999, 0.2004 + i / 999)
        for i in range(300)
    )
    names = (f"transformer.blocks.{i}.weight" for i in range(count))
    noted = [(name, *mark[1:]) for name, mark in zip(names, noted, strict=True)]
    return Trace((*trace, *waits, *small), trace.source * 5, zero=ZERO), noted


@pytest.mark.parametrize(
    ("runs", "count", "per"),
    [(2, 40, 1), (2, 40, 2), (3, 26, 1), (1, 40, 1), (1, 1, 1), (2, 40, 40)],
)
def test_a_page_is_small_and_every_gradient_is_in_it(runs, count, per):
    named = {f"{i} {'ß' * 200}": crowded(count, per) for i in range(runs)}
    scene = scenes.overlap(named)
    assert len(scene._repr_html_()) < 60_000
    assert len(items(scene, "way")) == runs * -(-count // per)
    found = [name for name in items(scene, "gradient") if "pin" not in name]
    assert len(found) == runs * count
    assert len(scene.moments) > 3
    texts = [item for item in scene.moments[-1].items if item.role == "label strong"]
    assert len(texts) == runs and all(6.6 * len(item.text) < 420 for item in texts)


@pytest.mark.parametrize(
    "events",
    [
        [Event(0, "compute", "one", 3.0, 3.0)],
        [Event("vgpu:0", "communicate", "copy to cpu", 3.0, 4.0, 7)],
        [Event(0, "communicate", "</script><b>&", 0, 1, 10**15)],
        [Event(0, "wait", "recv", 0, 1), Event(1, "compute", "backward", 0, 1)],
    ],
)
def test_an_odd_trace_is_harmless(events):
    scene = scenes.overlap({"</script>": Trace(tuple(events), "measured")})
    assert scene._repr_html_().count("</script>") == 1
    json.dumps(payload(scene), allow_nan=False)


def test_more_than_fits_side_by_side_shares_the_last_lane():
    rows = [(0.121 + 0.001 * i, 0.3, MB) for i in range(6)]
    found = items(scenes.overlap(run(*rows)[0]), "send")
    assert len({item.y for item in found.values()}) == 3


def test_screen_readers_hear_what_was_sent():
    scene = scenes.overlap({"own": OWN})
    assert scene.alt == (
        "own: 3 gradients; all-reduce 1, 8 MB, 29 ms; all-reduce 2, 1 MB, 20 ms"
    )


# --- real ranks


def train(rank, world_size, steps=4):
    """DDP in three buckets; the order of its gradients comes back from the hooks."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [nn.Linear(256, 256) for _ in range(3)]
    model, noted = nn.Sequential(*layers, nn.Linear(256, 4)), []

    def watch(name, parameter):
        def hook(tensor):
            noted.append((name, tensor.nbytes, time.time()))

        parameter.register_post_accumulate_grad_hook(hook)

    for name, parameter in model.named_parameters():
        watch(name, parameter)
    model = DistributedDataParallel(model, bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8, 256)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
    return noted


def test_gradients_of_a_real_ddp_lie_in_its_backward_and_fill_its_all_reduces():
    run = cl.launch(train, world_size=2, trace=True)
    scene = scenes.overlap({"DDP": (run.trace, run[0])}, step=1)
    # layer 3 and 2 (4.1 and 263 kB), then each of the two others (263 kB)
    tips = [item.tip for item in items(scene, "send").values() if item.tip]
    tips = [tip.split(": ")[1:] for tip in tips if "waits" not in tip]
    sent = [tip[1] for tip in tips if tip[0].startswith("all-reduce")]
    assert sent == [
        "3.bias, 3.weight, 2.bias and 2.weight",
        "1.bias and 1.weight",
        "0.bias and 0.weight",
    ]
    assert "no known" not in scene.source and len(pins(scene)) == 8
    assert len(items(scene, "way")) == 3


def test_a_hook_runs_while_the_recorder_sees_backward():
    run = cl.launch(train, world_size=2, trace=True)
    back = [e for e in run.trace.select(0, "compute") if e.name == "backward"]
    times = [at - run.trace.zero for _, _, at in run[0]]
    first = run.trace.select(0).events[0].start
    within = [any(e.start <= at <= e.stop for e in back) for at in times if at > first]
    assert within and all(within)
    step = run.trace.steps()[0]
    assert step.zero == step.select(0, "compute").zero == run.trace.zero
