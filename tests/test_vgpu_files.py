"""State, copies and files of modules on virtual GPUs."""

import copy
import pickle

import pytest
import torch
from torch import nn

from tests.test_vgpu_modules import Words, built, equal, mlp, trained


@pytest.mark.parametrize("target", ["cpu", "vgpu:0", "vgpu:2"])
def test_a_state_is_loaded_wherever_the_module_is(devs, target):
    source, other = built(mlp, devs[0]), mlp().to(target)
    other.load_state_dict(source.state_dict())
    equal(source, other)
    assert {str(p.device) for p in other.parameters()} == {target}


def test_a_loaded_optimizer_goes_on_as_the_first(devs):
    batch = torch.randn(5, 4, device=devs[1])
    first, second = built(mlp, devs[1]), built(mlp, devs[1])
    one = torch.optim.Adam(first.parameters())
    trained(first, batch, one)
    second.load_state_dict(first.state_dict())
    other = torch.optim.Adam(second.parameters())
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert trained(first, batch, one) == trained(second, batch, other)


def test_a_deep_copy_of_a_module_stays_on_its_device(devs):
    model = built(mlp, devs[1])
    other = copy.deepcopy(model)
    equal(model, other)
    with torch.no_grad():
        other[0].weight.zero_()
    assert model[0].weight.abs().sum() > 0
    assert isinstance(other[0].weight, nn.Parameter) and other[0].weight.is_leaf
    assert {p.device for p in other.parameters()} == {devs[1]}


def test_a_deep_copy_keeps_ties(devs):
    other = copy.deepcopy(Words().to(devs[1]))
    assert other.head.weight is other.table.weight


def test_a_pickled_module_comes_back_to_its_device(devs):
    model = built(mlp, devs[1])
    other = pickle.loads(pickle.dumps(model))
    equal(model, other)
    assert isinstance(other[0].weight, nn.Parameter)
    assert {p.device for p in other.parameters()} == {devs[1]}


@pytest.mark.parametrize("source", ["cpu", "vgpu:1"])
@pytest.mark.parametrize("target", [None, "cpu", "vgpu:2", torch.device("cpu")])
def test_a_file_is_loaded_to_where_map_location_says(devs, tmp_path, source, target):
    model = built(mlp, source)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", map_location=target)
    assert {str(t.device) for t in state.values()} == {str(target or source)}
    other = mlp()
    other.load_state_dict(state)
    equal(model, other)


def test_a_file_of_an_optimizer_is_loaded_to_another_device(devs, tmp_path):
    model = built(mlp, devs[1])
    optimizer = torch.optim.Adam(model.parameters())
    trained(model, torch.randn(5, 4, device=devs[1]), optimizer)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", map_location="vgpu:2")["state"][0]
    assert state["exp_avg"].device == devs[2]
    assert state["step"].item() == 3


def test_a_file_for_a_device_that_is_not_there_is_refused(devs, virtual, tmp_path):
    torch.save(torch.ones(2, device=devs[2]), tmp_path / "tensor.pt")
    virtual(1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.load(tmp_path / "tensor.pt")
    assert torch.load(tmp_path / "tensor.pt", map_location="cpu").tolist() == [1, 1]
