"""Which devices a lesson uses: the machine's GPUs, or virtual ones."""

from __future__ import annotations

import math
import sys
import traceback
from numbers import Real

import torch

from course_lib.accelerators import missing
from course_lib.accelerators.hardware import (
    DataSheet,
    achievable,
    find_gpu,
    find_link,
    parse_size,
)
from course_lib.accelerators.virtual import LAUNCH, machine
from course_lib.errors import UsageError
from course_lib.system import torch_versions
from course_lib.text import many, size
from course_lib.tracebacks import show_errors

_MOST = 1024
chosen: list[torch.device] = []  # what `devices` returned last


def devices(
    n: int = 2,
    memory=None,
    *,
    gpu=None,
    link=None,
    launch=None,
    rates=None,
    nccl=True,
    quiet=False,
) -> list[torch.device]:
    """Return `n` devices: real GPUs where the machine has so many, else virtual ones.

    `memory` is what each may hold, as bytes or as "24 MB" (default: all that the GPU
    has); `gpu` and `link` name the hardware (default: "A100", "NVLink3"), and `launch`
    is the seconds that the host pays per operator. `rates` are those that training
    "reached" on such a GPU (default), or the "peak" ones of its data sheet. With
    `nccl=False` nn.DataParallel copies to one device after the other, as PyTorch does
    where it is built without NCCL, such as on Windows. Whoever asks for one of the six
    gets virtual GPUs: no real one can be made to have it. A process that has virtual
    GPUs gets no real ones later: PyTorch computes gradients on one kind of device. Each
    call starts anew: clocks and peaks at zero.

    Errors: UsageError for an unknown gpu, link or kind of rates (it lists the known
    ones), for fewer than 1 device, or for memory that is none.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise UsageError(
            f"cannot make {n!r} devices: expected a whole number from 1 to {_MOST}."
        )
    choices = memory, gpu, link, launch, rates
    modelled = not nccl or any(choice is not None for choice in choices)
    sheet = _sheet("A100" if gpu is None else gpu, rates)
    options = {
        "gpu": sheet,
        "memory": sheet.memory if memory is None else parse_size(memory),
        "link": find_link("NVLink3" if link is None else link),
        "launch": _seconds(LAUNCH if launch is None else launch),
        "nccl": bool(nccl),
    }
    is_real = torch.cuda.device_count() >= n and not modelled and not machine.count
    trouble = _trouble(n) if is_real else ""
    if is_real and not trouble:
        chosen[:], line = _real(n)
    else:
        chosen[:], line = _virtual(n, options)
        line += trouble
    if not quiet:
        print(line)
    return list(chosen)


def _sheet(gpu, rates):
    """Return the GPU of a name at these rates; a data sheet of one's own as it is."""
    if rates not in (None, "reached", "peak"):
        raise UsageError(
            f'cannot model {rates!r:.40} rates: known are "reached", those of training'
            ' steps on such a GPU, and "peak", those of its data sheet.'
        )
    as_given = isinstance(gpu, DataSheet) and rates is None
    return find_gpu(gpu) if as_given or rates == "peak" else achievable(gpu)


def _seconds(launch):
    if isinstance(launch, Real) and 0 <= float(launch) < math.inf:
        return float(launch)
    raise UsageError(
        f"cannot launch operators in {launch!r} seconds: expected a number, such as"
        f" {LAUNCH:g}, or 0 for a host that costs nothing."
    )


def _trouble(n):
    """Why one of the first `n` real GPUs cannot be used, as a sentence; "" if all can.

    That they are counted says little: a driver may be too old, a GPU full or closed.
    """
    for index in range(n):
        try:
            _touch(index)
        except RuntimeError as error:
            what = str(error).partition("\n")[0].rstrip(".")
            return f" GPU {index} cannot be used ({what}): cl.doctor() says more."
    return ""


def _touch(index):
    torch.zeros(1, device=torch.device("cuda", index))


def _real(n):
    names = [torch.cuda.get_device_name(index) for index in range(n)]
    kinds = ", ".join(dict.fromkeys(names))
    line = f"{many(n, 'GPU')}: {kinds}. All is measured."
    return [torch.device("cuda", index) for index in range(n)], line


def _virtual(n, options):
    """`n` virtual GPUs with these options of `devices`, and a line that tells them."""
    with torch_versions.explained():
        from course_lib.accelerators import vgpu

        vgpu.install()
    # an error of an earlier cell keeps the tensors of its functions
    _clear(getattr(sys, "last_traceback", None))
    used = any(device.type == "cuda" for device in chosen)
    machine.set_up(n, **options)
    machine.options = {"n": n, **options}
    _show_errors_as_on_cuda()
    each = f" each, {machine.wires}" if n > 1 else ""
    line = (
        f"{many(n, 'virtual GPU')}: {options['gpu'].name}, {size(options['memory'])}"
        f"{each}. Numbers and errors are real, bytes are counted, times are modelled."
    )
    if used:
        line += (
            " From now on this process has no gradients on real GPUs: restart the"
            " kernel before you use them again."
        )
    return [torch.device("vgpu", index) for index in range(n)], line


# PyTorch says by each of these that it has no CUDA
_KINDS = (RuntimeError, AssertionError, AttributeError, TypeError, ValueError)


def _show_errors_as_on_cuda():
    """In a notebook: tracebacks without our own lines, no memory held by an error.

    An error keeps its frames, and these the tensors of the step that failed: after an
    out-of-memory the device would stay full for the next cell. What asks for CUDA is
    told of the virtual GPUs, in a script as well.
    """
    for kind in _KINDS:
        show_errors(kind, _show)
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print


def _print(kind, error, trace):
    sys.__excepthook__(kind, error, trace)
    if advice := missing.help_devices(str(error), machine.count):
        print(advice, file=sys.stderr)


def _show(shell, kind, error, trace, *, tb_offset):
    if advice := missing.help_devices(str(error), machine.count):
        # Python 3.10 has no add_note; IPython shows this attribute there, too
        error.__notes__ = [advice]
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
