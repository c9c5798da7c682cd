"""Exercise 2.4, in a rank: a search for the largest micro-batch, watched.

Adam's state lies on the device from the start, as in a training after its first step:
a size that is found without it runs out of memory in step 2.
"""

import bisect
import copy
import gc
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return what the search gives on a device that just holds the images `wanted`.

    Beside it what fits by bisection, what it tried, and what it left behind.
    """
    data = given["images"], given["labels"]
    memory, expected = costs(given)
    device, gpu = one_gpu(memory)
    model, optimizer = in_training(given["model"], device)
    gc.collect()  # nothing of the searches above may take room from the answer
    start = [p.detach().cpu().clone() for p in model.parameters()]
    before = gpu.memory_allocated(device)
    with Work(model) as work:
        returned = plain(answer(model, *data))
    gc.collect()
    weights = [p.detach().cpu() for p in model.parameters()]
    left = gpu.memory_allocated(device) - before
    del optimizer  # held its state until here
    return {
        "returned": returned,
        "left": left,
        "grads": any(p.grad is not None for p in model.parameters()),
        "moved": not all(map(torch.equal, start, weights)),
        "tried": work.passes,
        "baseline": {"largest": expected, "memory": memory},
    }


def costs(given):
    """Return the bytes of a device that just holds what is wanted, and what that is."""
    data = given["images"], given["labels"]
    memory = _between(given["model"], data, given["wanted"])
    device, _ = one_gpu(memory)
    model, optimizer = in_training(given["model"], device)
    sizes = range(1, len(data[0]) + 1)
    largest = bisect.bisect(sizes, False, key=partial(_fails, model, data))
    del optimizer  # held its state until here
    return memory, largest


def in_training(model, device):
    """Return a copy of the model on `device`, and its Adam after a step by nothing."""
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def _step(model, data, count):
    """One micro-batch of `count` images, as the exercise gives it."""
    device = next(model.parameters()).device
    images, labels = (part[:count].to(device) for part in data)
    cross_entropy(model(images), labels).backward()


def _between(model, data, wanted):
    """Bytes that hold `wanted` images and half of one more, however it is written."""
    device, gpu = one_gpu()
    peaks = []
    for count in (wanted, min(wanted + 1, len(data[0]))):
        trial, optimizer = in_training(model, device)
        gpu.reset_peak_memory_stats(device)
        _step(trial, data, count)
        _step(trial, data, count)
        peaks.append(gpu.max_memory_allocated(device))
        del trial, optimizer
    spare = 0 if peaks[1] > peaks[0] else peaks[0] // 4
    return sum(peaks) // 2 + spare


def _fails(model, data, count):
    """Whether a device is too small for two such micro-batches after each other."""
    try:
        _step(model, data, count)
        _step(model, data, count)
    except torch.OutOfMemoryError:
        return True
    finally:
        model.zero_grad()
    return False
