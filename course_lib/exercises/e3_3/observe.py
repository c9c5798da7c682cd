"""Exercise 3.3, in a rank: predictions of bytes, and what DataParallel sends."""

import copy
import inspect

import torch
from torch import nn

from course_lib.exercises.device_runs import on_devices
from course_lib.exercises.values import plain


class Scaled(nn.Module):
    """Numbers from 0 to 1 of images in bytes."""

    def forward(self, images):
        """Return images u8 as f32."""
        return images / 255


def observe(rank, world_size, answer, given):
    """Return what `answer` predicts for a step and for some that differ a little.

    Notebooks that were handed out earlier have no `nccl` in their function: their text
    asks for copies to one device after the other, and so they are asked for those.
    """
    asked = (given["nccl"],) if _takes(answer, 5) else ()
    images = given["images"]
    with torch.no_grad():
        outputs = given["model"](images)
    step = given["model"], _batch(images), outputs, given["devices"]
    probes, extra = {}, {}
    for name, other in _varied(*step).items():
        extra[name] = sizes(*other)[name] - sizes(*step)[name]
        try:
            probes[name] = plain(answer(*copy.deepcopy(other), *asked))
        except Exception:  # only the step that is given has to work
            probes[name] = None
    return {
        "returned": plain(answer(*copy.deepcopy(step), *asked)),
        "nccl": bool(asked and given["nccl"]),
        "probes": probes,
        "extra": extra,
        "baseline": {"trace": costs(given)},
    }


def _takes(answer, count):
    try:
        inspect.signature(answer).bind(*range(count))
    except TypeError:
        return False
    return True


def costs(given):
    """Return the trace of one step of DataParallel."""
    from course_lib.tracing import device_trace

    devs = on_devices(given["devices"], nccl=given["nccl"])
    model = copy.deepcopy(given["model"]).to(devs[0])
    parallel = nn.DataParallel(model, device_ids=devs)
    images, labels = (given[name].to(devs[0]) for name in ("images", "labels"))
    with device_trace.trace() as recorded:
        nn.functional.cross_entropy(parallel(images), labels).backward()
    return recorded


def sizes(model, images, outputs, _n) -> dict[str, int]:
    """Return the bytes of what a step is about."""
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "buffers": sum(b.nbytes for b in model.buffers()),
        "images": images.nbytes,
        "outputs": outputs.nbytes,
    }


def _batch(images):
    """A batch as it comes from a data set, with whose memory it lies."""
    return torch.cat([images, images])[len(images) :]


def _varied(model, images, outputs, n):
    """Arguments by the name of what there is more of in them."""
    wide, held = copy.deepcopy(model), copy.deepcopy(model)
    last = model[-1]
    wide[-1] = nn.Linear(last.in_features, 110, dtype=last.weight.dtype)
    held[-1].register_buffer("more", torch.zeros(3000, dtype=last.weight.dtype))
    twice = _batch(torch.cat([images, images], -1))
    return {
        "parameters": (wide, images, outputs, n),
        "buffers": (held, images, outputs, n),
        "images": (model, twice, outputs, n),
        "outputs": (model, images, torch.cat([outputs, outputs], -1), n),
    }
