"""The code of lesson 01b that people copy: schedules on a clock, stages in ranks.

It is taken out of the lesson's cells and run for one to four stages or ranks.
"""

import itertools

import pytest
import torch
from torch.nn.functional import cross_entropy

import course_lib as cl
from course_lib import scenes
from course_lib.errors import LaunchError
from tests import lesson_code

CELLS = "setup", "start", "gpipe", "clock", "one-f-one-b", "own-stage", "process"
STAGES, BATCHES = (1, 2, 3, 4), (1, 2, 3, 4, 7)
STEPS = 5


@pytest.fixture(scope="module")
def lesson():
    """What these cells of the lesson define; nothing is drawn."""
    names = lesson_code.defined("01b", CELLS)
    yield names
    names["files"].cleanup()


def played(lesson, name, p, m):
    return lesson["clock"](lesson[name](p, m))


def most_alive(instructions, p):
    """Micro-batches between their forward and their backward at most, by stage."""
    alive, peaks = [0] * p, [0] * p
    for s, kind, _ in instructions:
        alive[s] += 1 if kind == "forward" else -1
        peaks[s] = max(peaks[s], alive[s])
    return peaks


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b"])
@pytest.mark.parametrize("p", STAGES)
def test_a_schedule_has_each_instruction_once_and_the_bubble_of_the_formula(
    lesson, name, p
):
    for m in BATCHES:
        each = itertools.product(range(p), ("forward", "backward"), range(m))
        assert sorted(lesson[name](p, m)) == sorted(each)
        trace = played(lesson, name, p, m)
        assert trace.span == 3 * (m + p - 1)
        assert trace.bubble == pytest.approx((p - 1) / (m + p - 1))


@pytest.mark.parametrize("p", STAGES)
def test_gpipe_keeps_all_alive_and_stage_s_of_1f1b_at_most_p_minus_s(lesson, p):
    for m in BATCHES:
        assert most_alive(lesson["gpipe"](p, m), p) == [m] * p
        expected = [min(m, p - s) for s in range(p)]
        assert most_alive(lesson["one_f_one_b"](p, m), p) == expected


def test_recomputation_makes_the_step_longer_by_a_third_and_keeps_the_share(lesson):
    plain = played(lesson, "gpipe", 4, 16)
    again = lesson["clock"](lesson["gpipe"](4, 16), lesson["UNITS"] | {"backward": 3})
    assert again.span / plain.span == pytest.approx(4 / 3)
    assert again.bubble == pytest.approx(plain.bubble)


def test_the_clock_refuses_a_list_whose_order_it_cannot_play(lesson):
    with pytest.raises(KeyError):  # torch lists one device after the other
        lesson["clock"](scenes.interleaved(2, 4))


@pytest.mark.parametrize("world_size", STAGES)
def test_ranks_train_as_one_process_does_and_hold_their_own_stage_alone(
    lesson, world_size
):
    ranks = cl.launch(lesson["pipeline"], world_size=world_size, timeout=120)
    whole = lesson["wide"](1024)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(whole(lesson["images"]), lesson["labels"]).backward()
        optimizer.step()
    expected = whole.state_dict()
    names = [name for part in ranks for name in part]
    assert names == list(expected)  # each once, in order
    for part in ranks:
        for name, weight in part.items():
            torch.testing.assert_close(weight, expected[name], atol=1e-5, rtol=1e-4)


def test_more_ranks_than_stages_are_refused_with_a_sentence(lesson):
    with pytest.raises(LaunchError, match="4 large layers make 4 stages, not 5"):
        cl.launch(lesson["pipeline"], world_size=5, timeout=120)
