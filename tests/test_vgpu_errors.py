"""Errors on virtual GPUs: in PyTorch's words, and work goes on after each."""

import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.backward_errors import CASES
from tests.commands import Python

ROOT = Path(__file__).parents[1]
RUN = "from tests import backward_errors; backward_errors.main()"

# --- two devices in one operator

MIXTURES = {
    "add": lambda a, b: a + b,
    "addmm": lambda a, b: torch.nn.functional.linear(a, b, b[0]),
    "cat": lambda a, b: torch.cat([a, b]),
    "mul_": lambda a, b: a.mul_(b),
    "where": lambda a, b: torch.where(a > 0, a, b),
}


@pytest.mark.parametrize("other", ["vgpu:1", "cpu"])
@pytest.mark.parametrize("name", MIXTURES)
def test_two_devices_in_one_operator_are_refused_in_pytorchs_words(devs, name, other):
    one, two = torch.ones(2, 2, device=devs[0]), torch.ones(2, 2, device=other)
    words = "Expected all tensors to be on the same device"
    with pytest.raises(RuntimeError, match=words) as caught:
        MIXTURES[name](one, two)
    message = str(caught.value)
    assert "vgpu:0" in message and other in message and f"_{name}" in message
    assert one.tolist() == [[1, 1], [1, 1]]


def test_a_single_number_of_the_cpu_may_meet_any_device(devs):
    assert (torch.ones(2, device=devs[1]) * torch.tensor(3.0)).tolist() == [3, 3]


def test_a_single_number_of_another_gpu_may_not(devs):
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=devs[1]) * torch.tensor(3.0, device=devs[0])


def test_a_backward_on_the_wrong_device_is_refused_and_ends_nothing(devs):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, slope):
            return slope + torch.ones(3, device=devs[0])

    leaf = torch.ones(3, device=devs[1], requires_grad=True)
    with pytest.raises(RuntimeError, match="vgpu:1 and vgpu:0.*_add"):
        Wrong.apply(leaf).sum().backward()
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


# --- an error in the middle of a backward


@pytest.fixture(scope="module")
def outcomes():
    """Error, whether the next backward worked, bytes left: of each case, by its name.

    From another process, since an error in a backward must not be able to end this one.
    """
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    process = Python(RUN, cwd=ROOT, env=env)
    out, err = process.communicate(110)
    rows = [json.loads(row) for row in out.splitlines()]
    last = rows[-1][0] if rows else "none"
    assert process.poll() == 0, f"the process ended in {last}: {err[-2000:]}"
    return {row[0]: row[1:] for row in rows if len(row) == 4}


@pytest.mark.parametrize("device", ["vgpu:0", "vgpu:1"])
@pytest.mark.parametrize("case", CASES)
def test_an_error_in_a_backward_comes_to_the_caller(outcomes, case, device):
    error, works, left = outcomes[f"{case}, {device}"]
    expected = "ValueError: stop here"
    if "memory" in case:
        expected = "OutOfMemoryError: vgpu out of memory. Tried to allocate 3.81 MiB"
    elif "interrupt" in case:
        expected = "KeyboardInterrupt"
    elif "operator" in case:
        expected = "RuntimeError: Expected all tensors to be on the same device"
    elif "number" in case:
        expected = "RuntimeError: function Own"
    assert error.startswith(expected)
    assert works and left == 0


def test_an_error_that_backward_code_handles_itself_is_no_error(devs):
    class Careful(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, slope):
            try:
                slope + torch.ones(3, device=devs[0])
            except RuntimeError:
                return slope * 5
            return slope

    leaf = torch.ones(3, device=devs[1], requires_grad=True)
    Careful.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [5, 5, 5]


def test_a_wrong_shape_is_refused_as_on_the_cpu(devs):
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        nn.Linear(3, 2).to(devs[1])(torch.ones(2, 4, device=devs[1]))


def test_a_model_and_a_batch_on_different_devices_name_both(devs):
    model = nn.Linear(3, 2).to(devs[1])
    with pytest.raises(RuntimeError, match="same device") as caught:
        model(torch.ones(2, 3, device=devs[0]))
    assert "vgpu:0" in str(caught.value) and "vgpu:1" in str(caught.value)
    with pytest.raises(RuntimeError, match="cpu"):
        model(torch.ones(2, 3))


@pytest.mark.parametrize("name", ["vgpu:3", "vgpu:99"])
def test_a_device_beyond_the_last_is_refused_in_cudas_words(devs, name):
    for make in (
        lambda: torch.ones(2, device=name),
        lambda: torch.empty(2, device=name),
        lambda: torch.ones(2).to(name),
        lambda: torch.ones(2, device=devs[0]).to(name),
        lambda: nn.Linear(2, 2).to(name),
        lambda: torch.tensor([1, 2], device=name),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            make()
