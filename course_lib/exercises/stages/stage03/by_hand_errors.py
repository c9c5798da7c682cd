"""What makes a data-parallel step by hand fail, and the hint for it."""

import re

from course_lib.exercises.device_runs import mixed

# CUDA names no method where tensors are added
_ADDED = re.compile(r"wrapper_[A-Za-z]+_(add_?|_?cat|_?stack)\)")
_FEW = (
    "9 samples on 4 devices give only 3 chunks, so one replica computes nothing and its"
    " gradients are None. Leave it out."
)
_OTHER = (
    (
        ("batch_size",),
        "The images and labels of a chunk differ in number. Cut both in the same way:"
        " images.chunk(n) and labels.chunk(n).",
    ),
    (
        ("deepcopy protocol", "graph leaves"),
        "Copy the model before it has a graph: copy.deepcopy(model).to(device).",
    ),
    (
        ("assign a gradient",),
        "A gradient has to be on the device of its parameter: .grad.to(devices[0]).",
    ),
    (
        ("a leaf Variable", "NoneType"),
        "Gradients are None before the first backward: assign the sum, or call"
        " backward on the replica of device 0 first.",
    ),
)


def why_raised(error, *, count: int, batch: int) -> str | None:
    """The hint for an answer that fails with `batch` samples on `count` devices."""
    text = str(error)
    if mixed(error):
        return _why_mixed(text)
    if "IndexError" in text or "StopIteration" in text:
        return _why_index(count, batch)
    if "NoneType" in text and batch == 9:
        return _FEW
    return next((hint for said, hint in _OTHER if any(s in text for s in said)), None)


def _why_mixed(text):
    if _ADDED.search(text) or "wrapper_" not in text:
        return (
            "You add tensors of different devices. Bring each to device 0 first,"
            " .to(devices[0]): the losses and the gradients."
        )
    return (
        "Weights, images and labels of one chunk belong on one device. And"
        " model.to(device) moves the model itself: copy it first."
    )


def _why_index(count, batch):
    if batch == 9:
        return _FEW
    if count != 4:
        return f"Is a number written where len(devices) belongs? Here it is {count}."
    if batch % count == 0:
        return (
            "There are more chunks than devices: split(n) makes chunks of n samples,"
            " chunk(n) makes n chunks."
        )
    return "10 samples on 4 devices: chunk gives 3, 3, 3, 1. 9 give only 3 chunks."
