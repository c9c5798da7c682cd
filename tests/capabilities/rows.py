"""The rows of the page: what virtual GPUs can, each with a function that proves it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

from course_lib.accelerators.hardware import achievable
from course_lib.accelerators.virtual import machine

KINDS = {
    "works": "as on CUDA; the numbers are compared with those of the CPU",
    "modelled": "works, and its time or its bytes come from the model",
    "refused": "raises the sentence that stands in the row",
    "absent": "nothing is raised: the row says what happens instead",
}
ROWS: list = []
N = 10_000_000  # float32 numbers of a tensor that takes its time
A100 = achievable("A100")


@dataclass(frozen=True)
class Row:
    """One line of the page; `prove` takes three virtual GPUs."""

    what: str
    kind: str
    sentence: str
    prove: Callable
    instead: str = ""  # what to do, where PyTorch's own sentence does not say it


def _maker(kind):
    """The decorator that makes rows of a kind."""

    def row(what, sentence, instead=""):
        def add(prove):
            ROWS.append(Row(what, kind, sentence, prove, instead))
            return prove

        return add

    return row


works, modelled, refused, absent = map(_maker, KINDS)


def raises(call, sentence):
    """Raise AssertionError unless `call` raises an error that says `sentence`."""
    with pytest.raises(Exception) as caught:
        call()
    words = " ".join(str(caught.value).split())
    assert sentence in words, words


def spent(call):
    """Seconds for which the host was busy, or waited, by the clock."""
    before = machine.clock.host
    call()
    return machine.clock.host - before


def alike(make, devs):
    """Check that `make(device)` gives on a virtual GPU what it gives on the CPU."""
    results = []
    for device in ("cpu", devs[1]):
        torch.manual_seed(0)
        results.append(make(device))
    plain, there = results
    assert there.device == devs[1]
    assert_close(there.detach().cpu(), plain.detach())
