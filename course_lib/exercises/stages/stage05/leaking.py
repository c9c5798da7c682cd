"""Exercise 5.3: batches that come through a queue, and what of them is kept alive."""

import contextlib
import functools
import gc
import os
import signal
import tempfile

import torch
import torch.multiprocessing as mp
from torch.multiprocessing import reductions

from course_lib.accelerators.usage import tensors
from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.stages.stage05.company import Company
from course_lib.exercises.stages.stage05.leaking_mistakes import (
    why_failed,
    why_held,
    why_large,
    why_left,
    why_other,
)
from course_lib.exercises.stages.stage05.watching import refuse_floats, watched
from course_lib.text import short

ROWS, ALIVE = 250, 3  # images in a batch; batches alive at a time, with some room
IMAGES, LABELS = ROWS * 64 * 4, ROWS * 8  # bytes of a batch
_REBUILDS = ("rebuild_storage_fd", "rebuild_storage_filename")


@baseline.settled()
def check_digest(attempt: Attempt) -> str:
    """Compare the results, and count what is open and mapped as each batch comes."""
    for count in (40, 15):
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            (seen,) = attempt(_digest, count, folder, world_size=1, why=why_failed)
        batches = _batches(count)
        for judge in (_judge_result, _judge_held, _judge_left, _judge_size):
            judge(seen, batches)
        if count == 40:
            first = seen
    return (
        f"the same results, and of 40 batches at most {max(first['images'])} are held"
        f" at a time; none afterwards"
    )


def _digest(rank, world_size, answer, /, *given):
    count, folder = given
    company = Company()
    tempfile.tempdir = folder
    queue = mp.Queue(maxsize=3)
    producer = mp.Process(target=_produce, args=(queue, count), daemon=True)
    with watched(company, answer, folder):
        producer.start()
        files = _open_files()
        with _arrivals() as arrivals:
            value = answer(queue, count)
        gc.collect()
        held = _mapped()
        opened = _open_files() - files
        result = _plain(value)
    return {
        "images": [images for images, _ in arrivals],
        "labels": [labels for _, labels in arrivals],
        "left": held,
        "open": opened,
        "kept": _kept(value),
        "shared": any(one.is_shared() for one in tensors(value)),
        "result": result,
        "said": short(value),
        "strategy": mp.get_sharing_strategy(),
    }


def _batches(count):
    """Images f32[250, 1, 8, 8] and labels i64[250]: parts of the digits, in turn.

    The second batch has no 9, and the fourth no 0.
    """
    images, labels = baseline.samples(5 * ROWS)
    starts = [(n % 5) * ROWS for n in range(count)]
    shifts = [n // 5 for n in range(count)]
    bounds = {1: (0, 8), 3: (1, 9)}
    return [
        (
            images[a : a + ROWS].roll(shift, 0) + shift,
            labels[a : a + ROWS].clamp(*bounds.get(n, (0, 9))),
        )
        for n, (a, shift) in enumerate(zip(starts, shifts))
    ]


def _produce(queue, count):
    for images, labels in _batches(count):
        queue.put((images.clone(), labels.clone()))
    signal.pause()  # what it has sent is handed over by this process


@contextlib.contextmanager
def _arrivals():
    """How many images and labels are mapped whenever the next storage comes."""
    seen, before = [], {name: getattr(reductions, name) for name in _REBUILDS}

    def noting(rebuild):
        @functools.wraps(rebuild)
        def look(*args):
            seen.append(_mapped())
            return rebuild(*args)

        return look

    for name, rebuild in before.items():
        setattr(reductions, name, noting(rebuild))
    try:
        yield seen
    finally:
        for name, rebuild in before.items():
            setattr(reductions, name, rebuild)


def _mapped():
    """How many storages of images and of labels this process has mapped."""
    with open("/proc/self/maps") as file:
        spans = [line.split()[0] for line in file if "/dev/shm/torch_" in line]
    ends = [[int(end, 16) for end in span.split("-")] for span in spans]
    large = sum(last - first >= IMAGES for first, last in ends)
    return large, len(ends) - large


def _open_files():
    return len(os.listdir("/proc/self/fd"))


def _kept(value):
    """The bytes of the storages that a result keeps alive, shared or not."""
    storages = {one.untyped_storage().data_ptr(): one for one in tensors(value)}
    return sum(one.untyped_storage().nbytes() for one in storages.values())


def _plain(value):
    """Images f32[n, 1, 8, 8] and counts i64[10] as they came back, or None."""
    try:
        images, counts = value
        rows = [torch.as_tensor(one).detach().clone() for one in images]
        return torch.stack(rows), torch.as_tensor(counts).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        return None


def _judge_result(seen, batches):
    images = torch.stack([part[part.sum((1, 2, 3)).argmax()] for part, _ in batches])
    counts = sum(torch.bincount(labels, minlength=10) for _, labels in batches)
    result, count = seen["result"], len(batches)
    if result is None:
        raise Wrong(
            f"digest returned {seen['said']}, expected a list of {count} images and"
            " i64[10]",
            "Return both, as the leaking function does: best, counts.",
        )
    found, numbers = result
    if found.shape != images.shape:
        raise Wrong(
            f"digest returned {len(found)} images of {tuple(found.shape[1:])}, expected"
            f" {count} of (1, 8, 8)",
            "One image of each batch, as it is, in the order in which they come.",
        )
    for n in range(count):
        if not torch.equal(found[n].double(), images[n].double()):
            same = torch.equal(found[n].double(), images[-1].double())
            raise Wrong(
                f"image {n} of {count} is not the brightest one of batch {n}",
                why_other(n, same and n < count - 1),
            )
    if numbers.tolist() != counts.tolist():
        raise Wrong(
            f"the counts are {numbers.tolist()!s:.60}, expected {counts.tolist()}",
            "Add the labels of each batch to the counts, of all ten digits, also of"
            " those that a batch lacks: bincount(labels, minlength=10).",
        )
    refuse_floats(numbers.tolist())


def _judge_held(seen, batches):
    images, labels = max(seen["images"], default=0), max(seen["labels"], default=0)
    if not seen["images"]:
        raise Wrong("no batch came through the queue", "Take them: queue.get().")
    if max(images, labels) > ALIVE:
        size = images * IMAGES + labels * LABELS
        raise Wrong(
            f"{images + labels} tensors of {len(batches)} batches were in shared memory"
            f" at a time ({size / 1e6:.1f} MB), each with a descriptor, expected at"
            f" most {2 * ALIVE}",
            why_held(seen, len(batches)),
        )


def _judge_left(seen, batches):
    images, labels = seen["left"]
    if images + labels or seen["open"] > 2:
        raise Wrong(
            f"after digest {images + labels} tensors are still in shared memory, and"
            f" {max(0, seen['open'])} descriptors are open, expected none",
            why_left(seen),
        )


def _judge_size(seen, batches):
    needed = 64 * 4 * len(batches) + 80
    if seen["kept"] > 4 * needed:
        raise Wrong(
            f"the result keeps {seen['kept'] / 1e6:.1f} MB alive, expected"
            f" {needed / 1e6:.2f} MB",
            why_large(seen),
        )
