"""How long a virtual GPU works on something, by its clock."""

import torch

from course_lib.tracing.device_trace import trace


def lasts(device, work):
    """Seconds that a device works on what `work()` launches."""
    torch.vgpu.synchronize(device)
    with trace() as result:
        kept = work()
    assert kept is not None
    return result.time(str(device), "compute")
