"""Exercise 2.4: a micro-batch that its check calls the largest lasts a training."""

import copy
import gc

import pytest
import torch

from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.e2_4 import observe
from course_lib.exercises.e2_4.judge import cases

CASES = {case.given["wanted"]: case.given for case in cases(0)}


def trained(given, count, memory):
    """Take three steps by Adam, of two micro-batches each, on a device of `memory`."""
    gc.collect()  # what earlier devices held counts on this one, too
    device, _ = one_gpu(memory)
    model = copy.deepcopy(given["model"]).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        for _ in range(2):
            observe._step(model, (given["images"], given["labels"]), count)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("wanted", CASES)
def test_the_right_answer_trains_with_adam(wanted):
    memory, largest = observe.costs(CASES[wanted])
    assert largest == wanted
    trained(CASES[wanted], largest, memory)


def test_one_image_more_runs_out_of_memory():
    given = min(CASES.items())[1]
    memory, largest = observe.costs(given)
    with pytest.raises(torch.OutOfMemoryError):
        trained(given, largest + 1, memory)
