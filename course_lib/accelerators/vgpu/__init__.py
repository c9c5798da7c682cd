"""Virtual GPUs: devices "vgpu:0", "vgpu:1" … of PyTorch, without any hardware.

All that leans on experimental or private parts of PyTorch is in this package. A tensor
of a virtual GPU wraps one of the CPU. Each operator runs on what is wrapped, which
gives the numbers of the CPU, and is charged to the device's memory and modelled time.
"""

from course_lib.accelerators.vgpu.backend import install
from course_lib.accelerators.vgpu.memory_kinds import mark_kind
from course_lib.accelerators.vgpu.tensors import VirtualTensor

__all__ = ["VirtualTensor", "install", "mark_kind"]
