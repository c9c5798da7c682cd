"""Which devices a lesson uses: the machine's GPUs, or virtual ones."""

from __future__ import annotations

import math
import sys
import traceback
from numbers import Real

import torch

from course_lib.accelerators.hardware import find_gpu, find_link, parse_size
from course_lib.accelerators.virtual import LAUNCH, machine
from course_lib.errors import UsageError
from course_lib.text import many, size

_MOST = 1024
chosen: list[torch.device] = []  # what `devices` returned last


def devices(
    n: int = 2, memory=None, *, gpu="A100", link="NVLink3", launch=None, quiet=False
) -> list[torch.device]:
    """Return `n` devices: real GPUs where the machine has so many, else virtual ones.

    `memory` is what each may hold, as bytes or as "24 MB" (default: all that the GPU
    has). `gpu` and `link` name what virtual GPUs model; `launch` is the seconds that
    the host pays per operator. Each call starts anew: clocks and peaks at zero.

    Errors: UsageError for an unknown gpu or link (it lists the known ones), for fewer
    than 1 device, or for memory that is none.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise UsageError(
            f"cannot make {n!r} devices: expected a whole number from 1 to {_MOST}."
        )
    sheet, wire = find_gpu(gpu), find_link(link)
    count = None if memory is None else parse_size(memory)
    launch = _seconds(LAUNCH if launch is None else launch)
    if torch.cuda.device_count() >= n:
        chosen[:], line = _real(n, count)
    else:
        chosen[:], line = _virtual(n, count, how=(sheet, wire, launch))
    if not quiet:
        print(line)
    return list(chosen)


def _seconds(launch):
    if isinstance(launch, Real) and 0 <= launch < math.inf:
        return float(launch)
    raise UsageError(
        f"cannot launch operators in {launch!r} seconds: expected a number, such as"
        f" {LAUNCH:g}, or 0 for a host that costs nothing."
    )


def _real(n, memory):
    machine.count, machine.options = 0, None  # virtual ones of an earlier call are over
    names = [torch.cuda.get_device_name(index) for index in range(n)]
    for index in range(n):
        total = torch.cuda.get_device_properties(index).total_memory
        share = 1.0 if memory is None else min(1.0, memory / total)
        torch.cuda.set_per_process_memory_fraction(share, index)
    kinds = ", ".join(dict.fromkeys(names))
    each = "" if memory is None else f", {size(memory)} of each"
    line = f"{many(n, 'GPU')}: {kinds}{each}. All is measured."
    return [torch.device("cuda", index) for index in range(n)], line


def _virtual(n, memory, *, how):
    from course_lib.accelerators import vgpu

    gpu, link, launch = how
    vgpu.install()
    # an error of an earlier cell keeps the tensors of its functions
    _clear(getattr(sys, "last_traceback", None))
    memory = gpu.memory if memory is None else memory
    machine.set_up(n, gpu=gpu, memory=memory, link=link, launch=launch)
    machine.options = {"n": n, "memory": memory, "gpu": gpu, "link": link}
    machine.options["launch"] = launch
    _show_errors_as_on_cuda()
    each = f" each, {link.name}" if n > 1 else ""
    line = (
        f"{many(n, 'virtual GPU')}: {gpu.name}, {size(memory)}{each}. Numbers and"
        " errors are real, bytes are counted, times are modelled."
    )
    return [torch.device("vgpu", index) for index in range(n)], line


def _show_errors_as_on_cuda():
    """In a notebook: tracebacks without our own lines, no memory held by an error.

    An error keeps its frames, and these the tensors of the step that failed: after an
    out-of-memory the device would stay full for the next cell.
    """
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is not None:
        shell.set_custom_exc((RuntimeError,), _show)


# IPython calls it in this way
def _show(shell, kind, error, trace, tb_offset=None):  # noqa: PLR0917
    _end_before_own(trace)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    while kind is torch.OutOfMemoryError and error is not None:
        _clear(trace)
        error = error.__cause__ or error.__context__
        trace = error.__traceback__ if error else None


def _clear(trace):
    """Let go of the variables of all functions in a traceback."""
    traceback.clear_frames(trace)
    for frame, _ in traceback.walk_tb(trace):
        # who has shown them may have left a copy in the frame; reading renews it
        _ = frame.f_locals


def _end_before_own(trace):
    """Let a traceback end where the learner or PyTorch asked for an operator."""
    last = entry = trace
    while entry is not None:
        if not _own(entry):
            last = entry
        entry = entry.tb_next
    # so the frames after it go, and the tensors that they hold
    last.tb_next = None


def _own(entry):
    name = entry.tb_frame.f_globals.get("__name__", "")
    return name == "torch._ops" or name.startswith("course_lib.accelerators.v")
