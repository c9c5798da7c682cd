"""Bars of memory: what a GPU holds, kind by kind, and what makes it less."""

import pytest
import torch
from torch import nn

import course_lib as cl
from course_lib.errors import UsageError
from course_lib.scenes import memory_bars
from course_lib.scenes.memory_bars import Placement

GIVEN = {"sample": 40_000, "batch": 4096, "capacity": 240e6}
ONE = {"microbatch": 1, "shard": False}
SPLIT = {"each_holds": "a part of the model"}


def bars(scene, **values):
    """`{kind: bytes}` of GPU 0 in the last moment of a run, as tips say them."""
    names = {name.replace("_", " "): value for name, value in values.items()}
    at = scene.at | names
    last = scene.runs[tuple(at[name] for name in scene.parameters)][-1]
    tips = [item.tip for item in last.items if item.tip.startswith("GPU 0")]
    return dict(tip.removeprefix("GPU 0: ").split(", ") for tip in tips), last.title


def test_adam_holds_sixteen_bytes_for_each_parameter_as_torch_does():
    model = nn.Linear(10, 9)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 10)).sum().backward()
    optimizer.step()
    state = [t for s in optimizer.state.values() for t in s.values() if t.dim()]
    scene = memory_bars(99, sample=8, batch=1, capacity=1e6)
    held, _ = bars(scene)
    assert held["optimizer state"] == f"{sum(t.nbytes for t in state)} B" == "792 B"
    assert held["parameters"] == held["gradients"] == "396 B"


def test_a_smaller_micro_batch_shrinks_activations_alone():
    scene = memory_bars(10**7, **GIVEN)
    large, title = bars(scene)
    small, after = bars(scene, **{"micro-batch": 64})
    assert {kind for kind in large if large[kind] != small[kind]} == {"activations"}
    assert title == "1 micro-batch of 4,096 samples: 324 MB do not fit into 240 MB."
    assert after == "64 micro-batches of 64 samples: 163 MB fit into 240 MB."


def test_gpus_share_the_batch_but_not_the_model():
    held, title = bars(memory_bars(10**7, **GIVEN), GPUs=4)
    assert held["parameters"] == "40 MB" and held["activations"] == "41 MB"
    assert title.startswith("4 ranks, each with 1 micro-batch of 1,024 samples: 241 MB")


def test_parts_of_the_model_have_all_four_kinds_in_parts():
    whole, _ = bars(memory_bars(10**7, **GIVEN))
    held, _ = bars(memory_bars(10**7, **GIVEN), GPUs=4, **SPLIT)
    assert list(held.values()) == ["10 MB", "10 MB", "20 MB", "41 MB"]
    assert list(whole.values()) == ["40 MB", "40 MB", "80 MB", "164 MB"]


def test_ranks_shard_the_optimizer_alone_and_only_where_there_are_copies():
    scene = memory_bars(10**7, **GIVEN)
    plain, _ = bars(scene, GPUs=4)
    shared, _ = bars(scene, GPUs=4, shard_optimizer=True)
    assert shared == plain | {"optimizer state": "20 MB"}
    assert bars(scene, shard_optimizer=True) == bars(scene)


def test_a_switch_without_effect_says_so():
    scene = memory_bars(10**6, **GIVEN)
    titles = {
        (gpus, holds): [m.title for m in scene.runs[gpus, holds, 64, True]]
        for gpus in (1, 4)
        for holds in ("the whole model", "a part of the model")
    }
    one, other = "the whole model", "a part of the model"
    assert "not shared because there is one GPU" in titles[1, one][2]
    assert "not shared because a part is on one GPU only" in titles[4, other][2]
    assert "shared by 4 ranks" in titles[4, one][2]
    assert "on one GPU nothing to split" in titles[1, other][3]
    assert "nothing to split" not in titles[1, one][3] + titles[4, other][3]


def test_a_model_in_parts_counts_one_micro_batch_and_says_so():
    scene = memory_bars(10**7, **GIVEN)
    _, title = bars(scene, GPUs=4, **SPLIT, **{"micro-batch": 64})
    assert title.startswith("64 micro-batches of 64 samples, one alive at a")
    assert "one micro-batch is alive at a time" in scene.source


def test_micro_batches_that_do_not_divide_the_batch_hold_up_to_so_many():
    scene = memory_bars(10**7, **GIVEN | {"batch": 66})
    _, title = bars(scene, GPUs=4)
    assert title.startswith("4 ranks, each with 1 micro-batch of up to 17 samples:")


def test_ranks_hold_each_gradient_in_a_bucket_of_ddp_too():
    scene = memory_bars(10**7, **GIVEN)
    one, ranks, parts = bars(scene), bars(scene, GPUs=2), bars(scene, GPUs=2, **SPLIT)
    assert [held["gradients"] for held, _ in (one, ranks, parts)] == [
        "40 MB",
        "80 MB",
        "20 MB",
    ]
    told = scene.runs[2, "the whole model", 4096, False][1].title
    assert told.endswith("parameter, and DDP's buckets, as much again: 80 MB more.")


def test_a_new_gradient_lies_beside_the_one_to_which_it_is_added():
    scene = memory_bars(10**7, largest=10**6, **GIVEN)
    once, again = bars(scene), bars(scene, **{"micro-batch": 64})
    assert [held["gradients"] for held, _ in (once, again)] == ["40 MB", "44 MB"]
    told = scene.runs[1, "the whole model", 64, False][1].title
    assert told.endswith("parameter, and a new one before it is added: 44 MB more.")


@pytest.mark.parametrize("turns", [1, 2])
def test_a_virtual_gpu_holds_what_the_bars_say(turns):
    [device] = cl.devices(1, quiet=True)
    layers = (nn.Linear(500, 500, bias=False) for _ in range(5))
    model = nn.Sequential(*layers).to(device)
    count, images = sum(p.numel() for p in model.parameters()), torch.ones(1, 500)
    torch.vgpu.reset_peak_memory_stats(device)
    for _ in range(turns):
        model(images.to(device)).sum().backward()
    peak = torch.vgpu.max_memory_allocated(device)
    case = {"sample": 1, "batch": turns, "capacity": 1e9}
    placed = Placement(count, 500**2, **case, gpus=1, holds="the whole model", **ONE)
    held = placed.held
    assert held["parameters"] + held["gradients"] == pytest.approx(peak, rel=0.02)


def test_kinds_come_one_after_the_other():
    titles = [moment.title for moment in memory_bars(10**6, **GIVEN).moments]
    assert titles[:3] == [
        "Parameters, 4 bytes each: 4 MB on the GPU.",
        "Gradients, 4 bytes for each parameter: 4 MB more.",
        "Adam, 8 bytes for each parameter: 8 MB.",
    ]


@pytest.mark.parametrize("capacity", [1, 240e6, 1e15])
def test_bars_and_line_stay_in_the_figure(capacity):
    scene = memory_bars(10**7, **GIVEN | {"capacity": capacity})
    for moments in scene.runs.values():
        for item in moments[-1].items:
            text = 6.6 * len(item.text) if item.role == "label" else 0
            assert item.x + max(item.w, text) <= 640


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batch": 0}, "batch cannot be 0: expected a whole number"),
        ({"batch": 0.5}, "batch cannot be 0.5: expected a whole number"),
        ({"batch": [64, 128]}, "batch cannot be .64, 128.: expected a whole number"),
        ({"sample": float("nan")}, "sample cannot be nan: expected a number"),
        ({"sample": 10**400}, "sample cannot be 1000.*to 1e.18"),
        ({"capacity": "40 GB"}, "capacity cannot be '40 GB'"),
    ],
)
def test_what_is_no_number_is_refused_in_a_sentence(change, words):
    with pytest.raises(UsageError, match=words):
        memory_bars(10**7, **GIVEN | change)


def test_the_figure_of_the_lesson_is_small():
    assert len(memory_bars(16_939_018, **GIVEN)._repr_html_()) < 50_000
