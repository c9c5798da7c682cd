"""Exercise 1.4, in a rank: the bytes of a training as predicted and as counted."""

import torch

from course_lib.exercises.device_runs import held, on_devices
from course_lib.exercises.e1_2.observe import mlp
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return what `answer(widths, samples)` predicts, beside what a device counts."""
    returned = plain(answer(list(given["widths"]), given["samples"]))
    return {"returned": returned, "baseline": _costs(given)}


def _costs(given):
    """Bytes by kind as a virtual GPU counts them."""
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
    return counted
