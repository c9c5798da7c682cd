"""Virtual GPUs in ranks: gloo carries their collectives, as those of the CPU."""

from __future__ import annotations

import functools
import sys

import torch
import torch.distributed as dist

from course_lib.accelerators.virtual import machine

_RANDOM = ("torch.distributed.tensor", "_random")


def allow_gloo() -> None:
    """Let `torch.distributed` take gloo for virtual GPUs."""
    if not dist.is_available():
        return
    dist.Backend.default_device_backend_map["vgpu"] = "gloo"
    dist.Backend.backend_capability["gloo"].append("vgpu")
    replaced = _by_gloo(dist.init_process_group)
    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        sys.modules[name].init_process_group = replaced


def _by_gloo(init):
    @functools.wraps(init)
    def init_process_group(backend=None, *args, device_id=None, **kwargs):
        if isinstance(device_id, torch.device) and device_id.type == "vgpu":
            # a group that is bound to a device is taken for one of nccl, and split
            machine.place(device_id.index)
            backend, device_id = backend or "gloo", None
        if backend is None and machine.count:
            # else PyTorch's group would serve no tensor of the CPU, and to gloo those
            # of virtual GPUs are such
            backend = "gloo"
        return init(backend, *args, device_id=device_id, **kwargs)

    return init_process_group


def refuse_random_shards(asker: str) -> None:
    """Raise if it is DTensor that asks for the state of the random numbers."""
    if asker == ".".join(_RANDOM):
        raise NotImplementedError(
            "virtual GPUs cannot draw random numbers shard by shard: fill parameters"
            " before fully_shard or parallelize_module, and leave out dropout between"
            " them."
        )
