"""What to say to a program that asks for a CUDA GPU where there is none, or too few."""

import re

import torch

from course_lib.text import many

# PyTorch's words: of a build without CUDA, then of one without a driver or a GPU
_NO_CUDA = (
    "Torch not compiled with CUDA enabled",
    "PyTorch was compiled without CUDA support",
    "without ATen_cuda library",
    "not linked with support for cuda devices",
    "torch.cuda.Stream requires CUDA support",
    "Tried to instantiate dummy base class",  # torch.cuda.Event, CUDAGraph
    "NVTX functions not installed",
    "has no attribute '_cuda_",
    "has no attribute '_nccl_",
    "Distributed package doesn't have NCCL built in",
    "does not match the current compilation's accelerator support",
    "Found no NVIDIA driver on your system",
    "No CUDA GPUs are available",
    "CUDA driver version is insufficient for CUDA runtime version",
    "Cannot re-initialize CUDA in forked subprocess",  # said before it looks for a GPU
    "invalid argument to reset_peak_memory_stats",
    "ProcessGroupNCCL is only supported with GPUs",
    "nccl2 requires at least one CUDA device",
    "less than the number of accelerators available: 0",
)
# what PyTorch refuses on the CPU alone, and takes on any accelerator
_ON_CPU = (
    "Cannot access accelerator device when none is available",
    "no pinned memory allocator is available",
    "device_ids and output_device arguments only work with",
    "device_ids can only be None or contain a single element",
)
# with DDP, then without
_SYNC_BATCH_NORM = (
    "SyncBatchNorm layers only work with GPU modules",
    "SyncBatchNorm expected input tensor to be on",
)
# programs that ask torch.accelerator, and go on with None
_ACCELERATOR = (
    "device type at start of device string: None",
    "FSDP needs a non-CPU accelerator device",
    "device() received an invalid combination of arguments - got (NoneType",
)
_NOTHING = re.compile(r"'NoneType' object has no attribute '(type|index)'")
_FILE = "Attempting to deserialize object on a CUDA device"
# gloo's words when it is to send or receive a CUDA tensor
_BAD_ADDRESS = "Bad address"
_TOO_FEW = (
    "Duplicate GPU detected",
    "Multiple Ranks are using the same GPU",  # NCCL 2.30
    "CUDA error: invalid device ordinal",
)
# of GPUs that PyTorch counts and cannot use
_UNUSABLE = (
    "NVIDIA driver on your system is too old",
    "no NVIDIA driver on your system",
    "No CUDA GPUs are available",
    "busy or unavailable",
    "error from cudaGetDeviceCount",
)
_GPU = re.compile(r"\b(gpus?|cuda|accelerators?)\b", re.IGNORECASE)

_RANKS = (
    "PyTorch finds no CUDA GPU here, so ranks compute on the CPU:"
    ' init_process_group("gloo"), and no set_device, no .cuda() or .to(rank), no'
    " device_ids."
)
# virtual GPUs refuse it in the same words
SYNC_BATCH_NORM = "SyncBatchNorm needs GPUs: leave convert_sync_batchnorm out here."
_RANKS_SEND = (
    "gloo takes CUDA tensors in collectives, and not in send or recv: send x.cpu(), or"
    " give each rank a GPU and use nccl."
)
_RANKS_UNUSABLE = (
    "CUDA cannot use a GPU here; cl.doctor() says why. Ranks run on CPUs after"
    ' os.environ["CUDA_VISIBLE_DEVICES"] = "".'
)
_RANKS_ACCELERATOR = (
    "PyTorch finds no accelerator here: call cl.devices(world_size) first in each rank,"
    " and torch.accelerator finds virtual GPUs."
)
_RANKS_FILE = (
    'PyTorch finds no CUDA GPU here: torch.load(…, map_location="cpu") puts the tensors'
    " of the file on the CPU."
)
_DEVICES_FILE = (
    "There is no CUDA GPU here, but {virtual}: torch.load(…, map_location=devices[0])"
    " puts the tensors of the file on one."
)
_DEVICES = (
    'There is no CUDA GPU here, but {virtual}: devices[0] or "vgpu:0" in place of'
    ' "cuda" and .cuda(), torch.vgpu in place of torch.cuda, "gloo" in place of "nccl".'
)


def help_ranks(text: str, ranks: int, *, source: str = "", virtual: int = 0) -> str:
    """Return a sentence on what helps ranks of which one failed, or "".

    `text` is what its error says, `source` the program around the line, `virtual` how
    many virtual GPUs the rank has made.
    """
    gpus = torch.cuda.device_count()
    if gpus:
        return _beside_gpus(text, gpus, ranks)
    if virtual:
        return help_devices(text, virtual)
    if _has(text, _SYNC_BATCH_NORM):
        return SYNC_BATCH_NORM
    if _FILE in text:
        return _RANKS_FILE
    asks = _NOTHING.search(text) and "current_accelerator" in source
    if asks or _has(text, _ACCELERATOR):
        return _RANKS_ACCELERATOR
    return _RANKS if _has(text, _NO_CUDA + _ON_CPU) else ""


def help_exit(text: str, *, virtual: int = 0) -> str:
    """Return what helps a rank that gave up and said `text`, or ""."""
    wants = _GPU.search(text) and not virtual and not torch.cuda.device_count()
    return _RANKS_ACCELERATOR if wants else ""


def help_devices(text: str, count: int) -> str:
    """Return what helps a program that has `count` virtual GPUs and asks for CUDA."""
    if torch.cuda.device_count():
        return ""
    if _has(text, _SYNC_BATCH_NORM):
        return SYNC_BATCH_NORM
    virtual = many(count, "virtual GPU")
    if _FILE in text:
        return _DEVICES_FILE.format(virtual=virtual)
    return _DEVICES.format(virtual=virtual) if _has(text, _NO_CUDA) else ""


def _beside_gpus(text, gpus, ranks):
    """Say what helps beside GPUs: too few of them, a shared one, or none that works."""
    if gpus < ranks and _has(text, _TOO_FEW):
        return _shared(gpus, ranks)
    if _BAD_ADDRESS in text:
        return _RANKS_SEND
    return _RANKS_UNUSABLE if _has(text, _UNUSABLE) else ""


def _shared(gpus, ranks):
    are = "is" if gpus == 1 else "are"
    return (
        f"nccl needs a GPU for each rank, and there {are} {many(gpus, 'GPU')} for"
        f" {ranks} ranks: world_size={gpus}, or"
        ' init_process_group("gloo"), whose ranks may share a GPU.'
    )


def _has(text, phrases):
    return any(phrase in text for phrase in phrases)
