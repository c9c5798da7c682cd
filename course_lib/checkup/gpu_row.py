"""The row of GPUs: how many there are, who uses them, what hides them."""

from __future__ import annotations

from collections import Counter

from course_lib.checkup.table import Finding
from course_lib.system import gpus
from course_lib.text import extent, listed

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_UNSET = f"unset {_VARIABLE}"
_ONE = "lessons with several devices use virtual GPUs"
_NONE = f"ranks run on CPUs; {_ONE}"
_RENT = "two NVIDIA GPUs, also rented: see docs/setup.md"
_FULL, _BUSY = 0.9, 50  # of the memory, in percent of the time
# what nvidia-smi says where it lists nothing, and what helps
_COMPLAINTS = {
    "communicate with the NVIDIA driver": "install the NVIDIA driver, or start it:"
    " sudo modprobe nvidia",
    "version mismatch": "start the machine anew: its driver was replaced",
    "Unknown Error": "start the container anew, or the machine",
    "No devices were found": "in a container: docker run --gpus all",
    "does not answer": "start the machine anew",
}


def finding(survey: gpus.Survey, variable: str | None) -> Finding:
    """Return the row of these GPUs, as CUDA_VISIBLE_DEVICES leaves them."""
    if not survey.gpus:
        return _none(survey)
    view = gpus.view(survey.gpus, variable)
    lacks = [
        *_hidden(survey.gpus, view, variable),
        *_sliced(survey.gpus),
        *_closed(view.gpus),
        *_used(view.gpus),
    ]
    if not survey.has_smi:
        remedy = "docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        lacks.append(("without nvidia-smi nobody sees who else uses them", remedy))
    if not view.gpus:
        lacks.append((_NONE, ""))
    elif len(survey.gpus) == 1 and not survey.gpus[0].is_sliced:
        lacks.append((_ONE, _RENT))
    costs = "; ".join(cost for cost, _ in lacks)
    remedies = "; ".join(dict.fromkeys(remedy for _, remedy in lacks if remedy))
    return Finding("GPUs", _listing(view.gpus), costs, remedies)


def _none(survey):
    """Return the row where no list of GPUs can be had."""
    said = survey.complaint
    if said:
        helps = (text for words, text in _COMPLAINTS.items() if words in said)
        cost = f"nvidia-smi: {said}: {_NONE}"
        return Finding("GPUs", "", cost, next(helps, "see docs/setup.md"))
    if survey.devices:
        cost = f"{survey.devices} in /dev that neither nvidia-smi nor torch can list"
        remedy = "in a container: docker run --gpus all; else: install the driver"
        return Finding("GPUs", "", f"{cost}: {_NONE}", remedy)
    if survey.has_card:
        cost = f"an NVIDIA GPU without a driver: {_NONE}"
        remedy = "install the NVIDIA driver; in a container: docker run --gpus all"
        return Finding("GPUs", "", cost, remedy)
    return Finding("GPUs", "", _NONE, _RENT)


def _listing(visible):
    kinds = Counter(map(_kind, visible)).items()
    return "; ".join(f"{count} × {kind}" for kind, count in kinds)


def _kind(gpu):
    return f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" if gpu.memory else gpu.name


def _hidden(all_gpus, view, variable):
    """Yield what CUDA_VISIBLE_DEVICES costs, and the remedy: none or one pair."""
    count, total = len(view.gpus), len(all_gpus)
    if variable is None:
        return
    left = f"a process sees {count} of {total}"
    if not variable.strip():
        yield f"{_VARIABLE} is empty, which hides all {total}", _UNSET
    elif view.double:
        yield f"{_VARIABLE} names {view.double} twice, which hides all {total}", _UNSET
    elif view.unknown and not view.unknown.startswith("-"):
        cost = f"{_VARIABLE} names {view.unknown}, which is not here: {left}"
        yield cost, f"names as nvidia-smi -L has them, or {_UNSET}"
    elif count < min(2, total) and not any(gpu.is_sliced for gpu in all_gpus):
        yield f"{_VARIABLE} hides {total - count} of {total}", _UNSET


def _sliced(all_gpus):
    """Yield what GPUs in MIG mode cost.

    A process sees one slice: docs.nvidia.com/datacenter/tesla/mig-user-guide, "CUDA
    Device Enumeration". nccl takes two slices for one GPU, and refuses; from 2.30 on
    NCCL_MULTI_RANK_GPU_ENABLE=1 lets it try: github.com/NVIDIA/nccl/issues/1716.
    """
    bare = [gpu for gpu in all_gpus if gpu.is_sliced and not gpu.slices]
    if bare:
        cost = f"{_named(bare)} in MIG mode without a slice: CUDA does not list it"
        yield cost, "ask its owner for a MIG slice, or for the whole GPU"
    count = sum(len(gpu.slices) for gpu in all_gpus)
    if count:
        sizes = ", ".join(one.size for gpu in all_gpus for one in gpu.slices)
        cost = f"MIG slices: {sizes}: a process sees one, and nccl joins no two of one"
        yield f"{cost} GPU; {_ONE}", f"choose one: {_VARIABLE}=MIG-… of nvidia-smi -L"


def _closed(visible):
    """Yield what a compute mode costs that does not let every process in."""
    closed = [gpu for gpu in visible if gpu.mode == "Prohibited"]
    if closed:
        cost = f"{_named(closed)} in compute mode Prohibited: nothing may run there"
        yield cost, "sudo nvidia-smi -c DEFAULT"
    single = [gpu for gpu in visible if gpu.mode == "Exclusive_Process"]
    if single:
        cost = f"{_named(single)} in compute mode Exclusive_Process: one process only,"
        yield f"{cost} notebook or rank, may use each", "sudo nvidia-smi -c DEFAULT"


def _used(visible):
    """Yield what other programs on the GPUs cost, in numbers."""
    full = [gpu for gpu in visible if gpu.memory and gpu.used >= _FULL * gpu.memory]
    if full:
        sizes = extent([round(gpu.used / 1024) for gpu in full])
        totals = extent([round(gpu.memory / 1024) for gpu in full])
        cost = f"{_named(full)} full: {sizes} of {totals} GiB are in use"
        yield f"{cost}, so lessons run out of memory", _others(visible, full)
    busy = [gpu for gpu in visible if gpu.busy is not None and gpu.busy >= _BUSY]
    if busy:
        cost = f"{_named(busy)} busy {extent([gpu.busy for gpu in busy])} % of the time"
        yield f"{cost}, so times here are too long", _others(visible, busy)


def _others(visible, taken):
    free = [gpu.index for gpu in visible if gpu not in taken]
    choice = f" {_VARIABLE}={','.join(free)} takes the others" if free else ""
    return f"nvidia-smi shows whose programs run;{choice or ' wait for them'}"


def _named(some):
    """`GPU 0 is`, `GPUs 0 and 1 are`."""
    indices = listed(gpu.index for gpu in some)
    return f"GPU {indices} is" if len(some) == 1 else f"GPUs {indices} are"
