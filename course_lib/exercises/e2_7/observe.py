"""Exercise 2.7, in a rank: the bytes of a layer as predicted and as counted."""

import contextlib
import gc
import io

import torch
from torch.utils.checkpoint import checkpoint

from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.values import plain
from course_lib.gpt import Block

# batch, length, width, heads of small layers: what is predicted for these shows what an
# answer counts
_SHAPES = """
1x8x64x4 2x9x96x2 5x9x32x2 3x24x96x6 7x31x48x3 1x64x32x1 4x15x128x4 2x50x80x5
6x8x112x7 1x33x160x2 3x12x192x12 8x20x16x1 2x71x48x3 1x11x224x7 5x40x32x2
9x10x80x1 1x90x64x2 4x57x16x1 6x36x64x4 2x16x144x9 3x44x32x1 11x13x48x1
1x21x192x3 7x9x160x10 2x27x96x1
"""
PROBES = [tuple(map(int, shape.split("x"))) for shape in _SHAPES.split()]


def observe(rank, world_size, answer, given):
    """Return what `answer` predicts for given layers and for probes."""
    flags = given["autocast"], given["recompute"]
    layers = [{"returned": plain(answer(*s, *flags))} for s in given["shapes"]]
    with contextlib.redirect_stdout(io.StringIO()):  # what it prints, it has printed
        probes = [_probe(answer, *shape, *flags) for shape in PROBES]
        again = _probe(answer, *given["shapes"][0], *flags)
    counted = count(given["shapes"][0], *flags)
    seen = {"layers": layers, "probes": probes, "again": again}
    return seen | {"baseline": counted}


def _probe(answer, *arguments):
    try:
        return plain(answer(*arguments))
    except Exception:  # only the layers that are given have to work
        return None


def count(shape, autocast, recompute) -> int:
    """Return the bytes that a layer keeps on a virtual GPU, its input included."""
    batch, length, width, heads = shape
    device, gpu = one_gpu()
    block = Block(width, heads).to(device)
    gc.collect()
    start = gpu.memory_allocated(device)
    x = torch.ones(batch, length, width, device=device, requires_grad=True)
    how = torch.autocast("vgpu", torch.bfloat16)
    with how if autocast else contextlib.nullcontext():
        y = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
    gc.collect()
    return gpu.memory_allocated(device) - start - y.nbytes
