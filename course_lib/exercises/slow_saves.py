"""A torch.save that takes its time, as a drive on the network may."""

import contextlib
import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

MOST = 6.0  # seconds that a file is late


@contextlib.contextmanager
def slow_saves(answer: Callable, mark: Path, others_wait: Callable[[], bool]):
    """Note the calls of torch.save in a block; half of each file is late.

    It comes once the other ranks wait for this one, at the latest after `MOST` seconds:
    who guesses how long a save takes reads half a file. The file `mark` exists while a
    save goes on. A function that has `save` itself among its globals, by `from torch
    import save`, gets the slow one, too.
    """
    save, saves = torch.save, []

    def slow(obj, f, *args, **kwargs):
        saves.append(f)
        whole = io.BytesIO()
        save(obj, whole, *args, **kwargs)
        content = whole.getvalue()
        half = len(content) // 2
        mark.touch()
        with _opened(f) as file:
            file.write(content[:half])
            file.flush()
            _stay_until(others_wait)
            file.write(content[half:])
            file.flush()
        mark.unlink(missing_ok=True)  # gone if several ranks save

    own = getattr(answer, "__globals__", {})
    names = [name for name, value in own.items() if value is save]
    own.update(dict.fromkeys(names, slow))
    torch.save = torch.serialization.save = slow
    try:
        yield saves
    finally:
        own.update(dict.fromkeys(names, save))
        torch.save = torch.serialization.save = save  # the rank's result is saved, too


def _stay_until(ready):
    deadline = time.monotonic() + MOST
    while time.monotonic() < deadline and not ready():
        time.sleep(0.005)


def _opened(file):
    if isinstance(file, str | os.PathLike):
        return open(file, "wb")
    return contextlib.nullcontext(file)  # the learner's own
