"""The backend "vgpu": what PyTorch is told and what is changed in it."""

from __future__ import annotations

import torch
from torch.fx.experimental import proxy_tensor
from torch.optim import optimizer
from torch.utils.backend_registration import (
    _setup_privateuseone_for_python_backend as register,
)

from course_lib.accelerators.vgpu import (
    accelerator,
    attention,
    autocast,
    factories,
    lazy,
    pinning,
    ranks,
    recurrent,
    tensors,
)
from course_lib.accelerators.vgpu.api import Api
from course_lib.accelerators.vgpu.autograd import SPECIAL_CASES, Guard, single_threaded
from course_lib.accelerators.vgpu.comm import replace_copies
from course_lib.accelerators.vgpu.copies import CROSSINGS
from course_lib.accelerators.vgpu.generators import VirtualGenerator
from course_lib.accelerators.vgpu.memory_kinds import after_step, before_step
from course_lib.accelerators.vgpu.operators import SPECIAL
from course_lib.accelerators.vgpu.refusals import MOVES, REFUSED, refuse_what_crashes
from course_lib.accelerators.vgpu.streams import VirtualEvent, VirtualStream
from course_lib.accelerators.vgpu.tensors import VirtualTensor

_library: list = []


def install() -> None:
    """Register the backend "vgpu" with PyTorch; a second call does nothing."""
    if _library:
        return
    SPECIAL.update(CROSSINGS | REFUSED | SPECIAL_CASES)
    api = Api()
    register("vgpu", api, device_guard=Guard())
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(factories.factory, "PrivateUse1")
    fallback.fallback(torch.library.fallthrough_kernel, autocast.KEY)
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("empty.memory_format", factories.empty, "PrivateUse1")
    kernels.impl("empty_strided", factories.empty_strided, "PrivateUse1")
    kernels.impl("_copy_from", factories.copy_from, "PrivateUse1")
    kernels.impl("_pin_memory", pinning.pin, "CPU")
    kernels.impl("is_pinned", pinning.is_pinned, "CPU")
    for key, (name, refuse) in MOVES.items():
        kernels.impl(name, refuse, key)
    autocast.register_casts(kernels)
    attention.register_attention(kernels)
    recurrent.register_cells(kernels)
    _library.extend([fallback, kernels])
    load = factories.load_storage
    torch.serialization.register_package(9, lambda storage: None, load)
    torch._utils._get_restore_location = factories.restoring(
        torch._utils._get_restore_location
    )
    # optimizers then work on lists of parameters at once, as on CUDA
    optimizer._foreach_supported_types.append(VirtualTensor)
    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(after_step)
    replace_copies()
    accelerator.patch_accelerator(api)
    lazy.move_lazy_modules()
    ranks.allow_gloo()
    torch.Event, torch.Stream = VirtualEvent, VirtualStream
    torch.Generator = VirtualGenerator
    refuse_what_crashes()
    torch.UntypedStorage.resize_ = tensors.resizing(torch.UntypedStorage.resize_)
    # else make_fx, and torch.func.linearize with it, take our tensors for constants
    proxy_tensor.HANDLED_TYPES += (VirtualTensor,)
    data = property(tensors.get_data, tensors.set_data)
    VirtualTensor.data = torch.nn.Parameter.data = data
    torch._has_compatible_shallow_copy_type = tensors.compatible(
        torch._has_compatible_shallow_copy_type
    )
    torch.autograd._engine_run_backward = single_threaded(
        torch.autograd._engine_run_backward
    )
