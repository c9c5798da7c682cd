"""What takes all ranks is known by PyTorch's frames, and is not said without need."""

import os

import pytest
import torch

from course_lib.launching.watchdog import gathering, sharded
from course_lib.launching.watchdog.stall import RankState
from course_lib.stacks import Frame
from course_lib.tracing.flight_recorder import Call

TORCH = os.path.dirname(torch.__file__)
FORWARD = ("distributed/fsdp/_fully_shard/_fsdp_state.py", "_pre_forward")
BACKWARD = ("distributed/fsdp/_fully_shard/_fsdp_state.py", "_pre_backward")
FULL = ("distributed/tensor/_api.py", "full_tensor")
OPERATOR = ("distributed/tensor/_dispatch.py", "redistribute_local_args")
BARRIER = ("distributed/distributed_c10d.py", "barrier")


def frames(*inner, line=5):
    """A stack: a line of the learner's, then functions of PyTorch."""
    below = [Frame(os.path.join(TORCH, file), 1, name) for file, name in inner]
    return (Frame("t.py", line, "train"), *below)


def waits(rank, *inner, line=5, calls=("all_gather",), group="0", members=None):
    made = [Call(group, n, name, "", False) for n, name in enumerate(calls, 1)]
    stack = frames(*inner, line=line)
    return RankState(rank, "waits", "", stack, tuple(made), members or {})


@pytest.mark.parametrize(
    "inner, name",
    [
        ([("nn/modules/module.py", "_call_impl"), FORWARD], "the forward of"),
        ([("_tensor.py", "backward"), BACKWARD], "the backward of a sharded"),
        ([FULL, ("distributed/tensor/_api.py", "redistribute")], "full_tensor()"),
        ([("functional.py", "norm"), OPERATOR], "norm() of a DTensor"),
        ([OPERATOR], "an operator of a DTensor"),
        ([("nn/modules/linear.py", "forward"), OPERATOR], "an operator of a DTensor"),
    ],
)
def test_a_gathering_is_named_by_what_the_learner_called(inner, name):
    assert gathering.find(frames(*inner)).name.startswith(name)


def test_a_function_of_the_same_name_elsewhere_is_no_gathering():
    mine = (Frame("t.py", 5, "train"), Frame("t.py", 9, "full_tensor"))
    assert gathering.find(mine) is None
    assert gathering.find(frames(("nn/modules/module.py", "_pre_forward"))) is None
    assert gathering.find(frames(BARRIER)) is None


def test_a_line_of_the_learners_below_it_is_no_gathering():
    hook = (*frames(FORWARD), Frame("t.py", 9, "hook"))
    assert gathering.find(hook) is None


def test_who_is_in_it_and_who_is_not_are_named():
    states = [waits(0, FULL), waits(1, BARRIER, line=7, calls=("barrier",))]
    assert sharded.gathers(states) == (
        " rank 0 is in full_tensor(), which gathers the shards of all ranks; rank 1 is"
        " not. Call it on all ranks, then use the tensor on rank 0 alone."
    )


def test_a_rank_at_an_earlier_line_may_yet_come_to_it():
    states = [waits(0, FULL), waits(1, BARRIER, line=4, calls=("barrier",))]
    assert sharded.gathers(states) == ""


def test_of_a_group_only_its_own_ranks_are_missed():
    pair = {"1": [0, 1]}
    states = [
        waits(0, FULL, group="1", members=pair),
        waits(1, BARRIER, line=7, calls=("barrier",)),
        waits(2, BARRIER, line=7, calls=("barrier",)),
    ]
    assert "; rank 1 is not." in sharded.gathers(states)


def test_ranks_that_are_in_it_alike_are_not_told_to_call_it():
    assert sharded.gathers([waits(0, FULL), waits(1, FULL)]) == ""


def test_a_difference_that_is_behind_a_rank_is_not_where_it_is_now():
    ahead = waits(0, FORWARD, calls=("barrier", "all_gather"))
    assert sharded.gathers([ahead, waits(1, FORWARD)]) == ""
    level = waits(1, FORWARD, calls=("barrier", "all_gather"))
    assert "run the same blocks" in sharded.gathers([ahead, level])
