"""Gradients fall into DDP's own buckets, which leave one after the other."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.errors import UsageError
from course_lib.scenes import buckets
from tests.test_torch_private import alone

MIB = 2**20


def wide():
    layers = [nn.Linear(64, 1024), *(nn.Linear(1024, 1024) for _ in range(4))]
    return nn.Sequential(*layers, nn.Linear(1024, 10))


def sizes_of(model):
    return [p.nbytes for p in reversed(list(model.parameters()))]


def sent(cap):
    """The bytes of each all-reduce in DDP's second step, as a hook of its own sees."""
    model, seen = DistributedDataParallel(wide(), bucket_cap_mb=cap), []

    def hook(state, bucket):
        seen.append(bucket.buffer().nbytes)
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, hook)
    for _ in range(2):
        seen.clear()
        model(torch.ones(1, 64)).sum().backward()
    return seen


def shares(scene):
    """How much of all bytes each bucket of the last moment holds."""
    items = scene.moments[-1].items
    widths = [item.w for item in items if item.id.startswith("bucket ")]
    return [wide / sum(widths) for wide in widths]


def test_buckets_are_those_that_ddp_sends():
    sizes = sizes_of(wide())
    with alone():
        for cap in (None, 1, 5, 25):
            real = [count / sum(sizes) for count in sent(cap)]
            assert shares(buckets(sizes, cap=[cap])) == pytest.approx(real, abs=1e-3)


def test_a_tensor_is_never_cut_and_fills_the_bucket_whole():
    titles = [moment.title for moment in buckets([100, 3 * MIB, 100]).moments]
    assert titles[2] == "Gradient 2 of 3 comes, 3.15 MB. Bucket 1 is full with 3.15 MB."
    assert titles[3].startswith("Bucket 1 leaves as an all-reduce of 3.15 MB")


def test_an_all_reduce_waits_for_its_gradients_and_for_the_one_before():
    scene = buckets([10**6] * 4, cap=[0.5], latency=[1])
    starts = {i.id: i.x for i in scene.moments[-1].items if "all-reduce " in i.id}
    assert list(starts.values()) == pytest.approx([1, 3, 5, 7])  # latency 1 ms and 1 MB
    last = scene.moments[-1]
    assert last.title == "4 all-reduces, all done after 9.0 ms: 5.0 ms after backward."


def test_what_is_not_hidden_is_what_comes_after_backward():
    items = {item.id: item for item in buckets([2 * MIB] * 3).moments[-1].items}
    assert items["hidden"].text == "hidden 2.6 ms"  # all of the first bucket
    assert items["late"].text == "not hidden 4.7 ms"


def test_a_gradient_falls_into_the_bucket_and_leaves_with_it():
    moments = buckets([MIB, MIB]).moments
    places = [{i.id: i for i in m.items}.get("gradient 0") for m in moments]
    assert places[0].role == "timed event gone"
    assert places[0].y < places[2].y < places[1].y
    assert places[1].role == "gradients"


def test_each_latency_has_its_best_cap():
    scene = buckets(sizes_of(wide()), cap=[1, 5, 25], latency=[0.5, 3])
    times = {values: run[-1].title.split()[5] for values, run in scene.runs.items()}
    for latency, best in ((0.5, "1"), (3, "5")):
        assert min(["1", "5", "25"], key=lambda c: float(times[c, latency])) == best


def test_the_limits_of_the_default_have_a_name():
    scene = buckets([MIB], cap=[25, None, 1])
    assert scene.parameters == {"cap (MiB)": ["25", "1, then 25", "1"]}
    assert scene.at == {"cap (MiB)": "25"}


@pytest.mark.parametrize(
    ("sizes", "settings", "words"),
    [
        ([], {}, "cannot show 0 gradients: the figure has room for 1 to 40"),
        ([1] * 41, {}, "room for 1 to 40"),
        ([float("nan")], {}, "a gradient cannot be nan"),
        ([-1], {}, "a gradient cannot be -1"),
        (None, {}, "a gradient cannot be None"),
        ([True], {}, "a gradient cannot be True"),
        ([2**63], {}, "a gradient cannot be 9223372036854775808"),
        ([1], {"cap": 10**30}, "cap cannot be 1000.*: expected a number"),
        ([1], {"cap": True}, "cap cannot be True"),
        ([1], {"latency": 1e300}, "latency cannot be 1e.300"),
        ([1], {"cap": [0]}, "cap cannot be 0"),
        ([1], {"cap": ["5"]}, "cap cannot be '5'"),
        ([1], {"latency": [float("nan")]}, "latency cannot be nan"),
    ],
)
def test_what_cannot_be_a_bucket_is_refused_in_a_sentence(sizes, settings, words):
    with pytest.raises(UsageError, match=words):
        buckets(sizes, **settings)


@pytest.mark.parametrize("sizes", [[0], [1], [0, 0, 0], [10**12]])
def test_tiny_and_huge_gradients_are_harmless(sizes):
    assert buckets(sizes, latency=[0])._repr_html_()


def test_the_figure_of_the_lesson_is_small():
    scene = buckets(sizes_of(wide()), cap=[None, 1, 5, 10, 25], latency=[0.5, 3])
    assert len(scene._repr_html_()) < 55_000


def test_the_last_number_of_the_axis_has_room_in_the_figure():
    axis = buckets([MIB]).axis
    assert axis.left + axis.width + 6.6 * len("1,000") / 2 < 640


def test_the_source_says_that_all_reduces_wait_for_each_other():
    assert "all-reduces one after the other" in buckets([MIB]).source
