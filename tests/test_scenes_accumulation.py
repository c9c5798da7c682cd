"""Accumulation on one GPU and DDP on ranks: one gradient, other traffic."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.errors import UsageError
from course_lib.scenes import accumulation
from course_lib.scenes.accumulation import Sharing
from tests.moments import items

GRADIENTS = [0.114, -0.01, -0.137, -0.135, 0.114, 0.113, -0.136, -0.012]


def grads(moment):
    return {name[:-5]: i.text for name, i in items(moment).items() if "grad" in name}


def bars(moment):
    return [name for name in items(moment) if name.startswith("all-reduce")]


@pytest.mark.parametrize("no_sync", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_all_ranks_end_with_the_gradient_of_one_gpu(ranks, no_sync):
    sharing = Sharing(GRADIENTS, 100, ranks, no_sync)
    mean = sum(GRADIENTS) / 8
    assert sharing.alone(8) == pytest.approx(mean)
    assert [sharing.shared(r, sharing.turns) for r in range(ranks)] == pytest.approx(
        [mean] * ranks
    )


def test_the_mean_of_micro_batches_is_the_gradient_of_the_whole_batch():
    torch.manual_seed(0)
    model, images = nn.Linear(5, 3), torch.randn(32, 5)
    labels = torch.randint(3, (32,))

    def gradient(rows):
        model.zero_grad()
        cross_entropy(model(images[rows]), labels[rows]).backward()
        return model.bias.grad[0].item()

    parts = [gradient(slice(i, None, 8)) for i in range(8)]
    whole = Sharing(parts, 100, 2, no_sync=True).shared(0, 4)
    assert whole == pytest.approx(gradient(slice(None)), abs=1e-7)


def test_without_no_sync_every_backward_sends():
    often, once = (
        accumulation(GRADIENTS, size=1000, no_sync=[quiet]).moments[-1]
        for quiet in (False, True)
    )
    assert grads(often) == grads(once)
    assert len(bars(often)) == 4 and len(bars(once)) == 1
    assert often.title.endswith("one GPU sent nothing, each rank 4 kB.")
    assert once.title.endswith("one GPU sent nothing, each rank 1 kB.")


def test_a_ring_sends_twice_the_gradient_but_for_one_part_in_n():
    assert Sharing([1] * 8, 1000, 4, no_sync=True).sent(2) == 1500
    assert Sharing([1] * 8, 1000, 1, no_sync=False).sent(8) == 0


def test_within_no_sync_ranks_differ_until_they_send():
    moments = accumulation(GRADIENTS, size=1000).moments
    turn = next(i for i, m in enumerate(moments) if m.title.startswith("All-reduce"))
    before, after = grads(moments[turn - 1]), grads(moments[turn])
    assert before["rank 0"] != before["rank 1"]
    assert after["rank 0"] == after["rank 1"]
    assert "sends nothing" in moments[turn - 2].title


def test_ranks_are_done_before_one_gpu_is():
    titles = [moment.title for moment in accumulation(GRADIENTS, size=8).moments]
    done = "One GPU adds 1/8 of micro-batch 5; the ranks are done."
    assert titles.index(done) < len(titles) - 2


@pytest.mark.parametrize(
    ("gradients", "settings", "words"),
    [
        ([], {}, "0 micro-batches: expected 1 to 8"),
        ([1] * 9, {}, "9 micro-batches"),
        ([float("nan"), 1], {}, "a gradient is nan"),
        (["<b>", 1], {}, "a gradient is '<b>'"),
        ([1] * 8, {"ranks": [3]}, "3 ranks cannot share 8 micro-batches evenly"),
        ([1] * 8, {"ranks": [0]}, "ranks cannot be 0"),
        ([1] * 8, {"ranks": []}, "needs at least one value"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_a_sentence(gradients, settings, words):
    with pytest.raises(UsageError, match=words):
        accumulation(gradients, size=100, **settings)


@pytest.mark.parametrize("size", [float("nan"), -1, "100", None, 10**400])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(UsageError, match="size cannot be .*: expected a number"):
        accumulation([1, 2], size=size)


def test_a_switch_is_true_or_false():
    with pytest.raises(UsageError, match="no_sync cannot be 'no': expected True or"):
        accumulation([1, 2], size=100, no_sync="no")


@pytest.mark.parametrize("gradient", [0, -1e-9, 123456.7])
def test_one_micro_batch_and_odd_numbers_are_harmless(gradient):
    scene = accumulation([gradient], size=0, ranks=[1])
    assert scene.moments[0].title.startswith("1 micro-batch: one GPU")
    assert "−0.00000" not in scene._repr_html_()


def test_the_figure_of_the_lesson_is_small():
    options = {"ranks": [2, 4], "no_sync": [False, True]}
    assert len(accumulation(GRADIENTS, size=19240, **options)._repr_html_()) < 40_000
