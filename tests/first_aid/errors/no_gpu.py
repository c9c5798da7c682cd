# run by: python
# says: Torch not compiled with CUDA enabled | Found no NVIDIA driver on your system
# says: no attribute '_cuda_setDevice' | Found no NVIDIA driver on your system
# says: Cannot access accelerator device when none | Found no NVIDIA driver
import traceback

import torch

for ask in (
    lambda: torch.ones(2, device="cuda"),
    lambda: torch.cuda.set_device(0),
    lambda: torch.nn.Linear(4, 2).to(0),
):
    try:
        ask()
    except Exception:
        traceback.print_exc()
