"""A hint on sharding is said where it holds, not where an error only looks like it."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate

from course_lib.clusters.fake_ranks import fake_ranks
from course_lib.launching import sharding


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def encode(self, x):
        return self.layer(x)

    def forward(self, x):
        return self.encode(x)


class Whole(nn.Module):
    """Calls its part in one of two ways."""

    def __init__(self, call):
        super().__init__()
        self.part, self.head, self.call = Part(), nn.Linear(4, 4), call

    def forward(self, x):
        return self.head(self.call(self.part, x))


@pytest.fixture
def mesh():
    with fake_ranks(2):
        yield dist.init_device_mesh("cpu", (2,))


def hint(call, *args):
    """The hint on the error of a call."""
    try:
        call(*args)
    except Exception as error:
        return "".join(sharding.hints(error, str(error)))
    raise AssertionError("no error")


def test_weights_that_were_gathered_are_not_said_to_be_shards(mesh):
    model = fully_shard(nn.Linear(4, 4), mesh=mesh)
    x = DTensor.from_local(torch.ones(2, 4), mesh, [Replicate()])
    assert hint(model, x).startswith("A DTensor does not compute with a plain tensor")


@pytest.mark.parametrize("call", [lambda part, x: part.encode(x), Part.encode])
def test_a_method_of_a_part_is_named_where_the_whole_was_called(mesh, call):
    model = Whole(call)
    fully_shard(model.part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    text = hint(model, torch.ones(2, 4))
    assert "The weights of this Linear are still shards" in text
    assert "model.encode() is another call" in text


def test_a_forward_that_is_called_by_its_name_is_told_so(mesh):
    model = fully_shard(nn.Linear(4, 4), mesh=mesh)
    assert hint(model.forward, torch.ones(2, 4)).endswith("Call model(x).")


def test_other_sizes_are_not_said_to_be_parts(mesh):
    model = fully_shard(nn.Linear(4, 4), mesh=mesh)
    assert hint(model.load_state_dict, nn.Linear(4, 3).state_dict()) == ""
    assert hint(nn.Linear(4, 4).load_state_dict, nn.Linear(4, 2).state_dict()) == ""
    mixed = nn.Linear(4, 4).state_dict() | {"bias": torch.ones(2)}
    assert "whole" in hint(model.load_state_dict, mixed)


def test_a_part_of_the_size_that_this_rank_has_is_told_so(mesh):
    model = fully_shard(nn.Linear(4, 4), mesh=mesh)
    text = hint(model.load_state_dict, nn.Linear(4, 2).state_dict())
    assert text.startswith("These weights have the sizes of this rank's part")


def test_a_module_that_is_sharded_twice_is_left_to_pytorch(mesh):
    model = fully_shard(nn.Linear(4, 4), mesh=mesh)
    assert hint(lambda: fully_shard(model, mesh=mesh)) == ""


def test_an_error_of_something_else_has_no_hint(mesh):
    def load_state_dict(self, state_dict):
        raise RuntimeError("size mismatch for weight")

    assert hint(load_state_dict, object(), torch.ones(2)) == ""
    assert hint(load_state_dict, nn.Linear(2, 2), torch.ones(2)) == ""
    assert hint(lambda: 1 / 0) == ""
