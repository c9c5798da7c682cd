"""`torch.Generator(device="vgpu:1")`: random numbers of the CPU under another name."""

from __future__ import annotations

import torch

from course_lib.accelerators.vgpu.stand_ins import StandIn, numbered


class VirtualGenerator(torch.Generator, metaclass=StandIn):
    """Gives the numbers that the CPU's gives for a seed; real GPUs give others.

    PyTorch takes it for one of the CPU. So what CUDA refuses passes here: a generator
    of another device, also in `torch.randperm`, as samplers call it.
    """

    def __new__(cls, device):
        """One of the CPU."""
        return super().__new__(cls)

    def __init__(self, device):
        self.where = numbered(device)

    @staticmethod
    def default(options):
        """Return None, PyTorch's own choice: the CPU."""

    @property
    def device(self):
        """Return the virtual GPU."""
        return self.where

    def clone_state(self):
        """Return another one that goes on alike."""
        return VirtualGenerator(self.where).set_state(self.get_state())
