"""Exercise 1.4, in a rank: the bytes of a training as predicted and as counted."""

import torch

from course_lib.accelerators.memory import KINDS
from course_lib.exercises.device_runs import held, on_devices
from course_lib.exercises.observe.e1_2 import mlp
from course_lib.exercises.values import plain

BLOCK = 512  # bytes to which a real GPU rounds each tensor


def observe(rank, world_size, answer, given):
    """What `answer(widths, samples)` predicts, beside what a device counts."""
    returned = plain(answer(list(given["widths"]), given["samples"]))
    return {"returned": returned, "baseline": _costs(given)}


def _costs(given):
    """Bytes by kind as the device counts them, and how far a real one may be off."""
    widths, samples = given["widths"], given["samples"]
    (device,) = on_devices(1)
    levels = [held([device])[str(device)]]

    def added():
        levels.append(held([device])[str(device)])
        return levels[-1] - levels[-2]

    model = mlp(widths).to(device)
    counted = {"parameters": added()}
    model(torch.ones(1, widths[0], device=device)).sum().backward()
    counted["gradients"] = added()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    counted["optimizer state"] = added()
    batch = torch.ones(samples, widths[0], device=device)
    output = model(batch)
    counted["activations"] = added()
    del output, batch
    # on a real GPU each of the tensors is rounded up, Adam's are twice as many
    tensors = 2 * (len(widths) - 1) * (device.type == "cuda")
    slack = dict.fromkeys(KINDS, BLOCK * tensors)
    slack["optimizer state"] *= 2
    source = "the GPU holds" if tensors else "the virtual GPU counts"
    return {"counted": counted, "slack": slack, "source": source}
