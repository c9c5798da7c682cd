"""Exercise 5.3, in a rank: batches that come through a queue, and what is kept alive.

Shared memory is counted by its maps, private memory by what the C library and Python
have given out: a copy of a batch is found whatever holds it.
"""

import ctypes
import functools
import gc
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.multiprocessing import reductions

from course_lib.exercises import baseline
from course_lib.exercises.child_processes import FORK, Family, watched
from course_lib.exercises.values import plain
from course_lib.system import linux

_REBUILDS = ("rebuild_storage_fd", "rebuild_storage_filename")
_MAPPED, _IN_USE = 4, 7  # places in what malloc has given out, in maps and otherwise
_LATE = 2000  # looks, of a millisecond, for which the first batch may be late
_THREADS = 3  # that an answer may have at a time, as it may have batches
# added to each pixel: sums are exact in f32, and a pixel is not in 16 bits
_FINE = 2**-12
_OBJECT = 32  # bytes of a small object of Python, about


def observe(rank, world_size, answer, given):
    """Return what `answer(queue, count)` gives, and what is held at each batch."""
    family, parts = Family(expected=1), batches(**given)
    small = parts[0][1].nbytes
    queue = FORK.Queue(maxsize=3)
    start = FORK.Process
    producer = start(target=_produce, args=(family, queue, parts), daemon=True)
    with watched(family, answer):
        producer.start()
        _warm_up(*parts[0])
        gc.collect()  # what goes by itself must not make room for a copy
        files, before = _open_files(), _private()
        arrivals = _note_arrivals(small)
        value = answer(queue, len(parts))
        _warm_up(*parts[0])
        gc.collect()
        kept = _private() - before
        left, opened = _mapped(small), _open_files() - files
    images, labels, private = map(max, zip((0, 0, before), *arrivals))
    return {
        "returned": plain(value),
        "held": {"images": images, "labels": labels},
        "private": private - before,
        "left": left,
        "open": opened,
        "kept": kept,
    }


def batches(count: int, start: int, rows: int) -> list[tuple]:
    """Return images f32[rows, 1, 8, 8] and labels i64[rows], parts of the digits.

    The second batch has no 9, and the fourth no 0.
    """
    images, labels = baseline.samples(start + 5 * rows)
    bounds, parts = {1: (0, 8), 3: (1, 9)}, []
    for number in range(count):
        turn, part = divmod(number, 5)
        chosen = slice(start + part * rows, start + (part + 1) * rows)
        least, most = bounds.get(number, (0, 9))
        shifted = images[chosen].roll(turn, 0) + (turn + _FINE)
        parts.append((shifted, labels[chosen].clamp(least, most)))
    return parts


def _produce(family, queue, parts):
    family.be_late(_LATE)  # who does not wait finds nothing there
    for images, labels in parts:
        queue.put((images.clone(), labels.clone()))
    signal.pause()  # what it has sent is handed over by this process


def _warm_up(images, labels):
    """Use what answers use, so that its first use takes no memory from then on.

    Also in threads: glibc keeps what PyTorch has in one that has ended (32 kB), for
    the next. So as much is kept before an answer as after it, whatever threads it has.
    """

    def use(_):
        together.wait()  # each has a thread of its own
        image = images[images.sum((1, 2, 3)).argmax()].clone()
        return image.tolist(), torch.bincount(labels, minlength=10)

    together = threading.Barrier(_THREADS)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(use, range(_THREADS)))


def _note_arrivals(small):
    """What is mapped and private whenever the next storage comes, in a list."""
    seen = []

    for name in _REBUILDS:
        rebuild = getattr(reductions, name)

        @functools.wraps(rebuild)
        def look(*args, rebuild=rebuild):
            seen.append((*_mapped(small), _private()))
            return rebuild(*args)

        setattr(reductions, name, look)
    return seen


def _mapped(small):
    """How many storages of images, and of labels, small ones, are mapped here."""
    with open("/proc/self/maps") as file:
        spans = [line.split()[0] for line in file if "/dev/shm/torch_" in line]
    ends = [[int(end, 16) for end in span.split("-")] for span in spans]
    large = sum(last - first > 4 * small for first, last in ends)
    return large, len(ends) - large


class _Given(ctypes.Structure):
    """What malloc has given out: the ten sizes of `struct mallinfo2` of glibc."""

    _fields_ = [("sizes", 10 * ctypes.c_size_t)]


def _private():
    """The bytes that this process has allocated for itself; 0 without glibc."""
    told = getattr(linux.libc(), "mallinfo2", None)
    if told is None:
        return 0
    told.restype = _Given
    sizes = told().sizes
    return sizes[_MAPPED] + sizes[_IN_USE] + _OBJECT * sys.getallocatedblocks()


def _open_files():
    return len(os.listdir("/proc/self/fd"))
