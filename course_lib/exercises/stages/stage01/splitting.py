"""Exercise 1.1: split a model over two devices."""

import copy

import torch
from torch import nn

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import CLOSE
from course_lib.exercises.device_runs import held, mixed, on_devices, to_cpu, watch
from course_lib.text import short, size

_MODELS = ((8, 256, 64), (12, 192, 96))  # Linear layers, width, samples


def check_split(attempt: Attempt) -> str:
    """Look at where parameters lie, what crosses, and output and gradients."""
    for layers, width, samples in _MODELS:
        (seen,) = attempt(_split, layers, width, samples, world_size=1, why=_why)
        _refuse_other(seen)
        _judge_places(seen)
        _judge_travel(seen)
        _judge_values(seen)
    crossed = size(seen["activation"])
    return f"half of each model on either device, one activation of {crossed} crosses"


def network(layers: int, width: int) -> nn.Sequential:
    """Equal layers, each with a ReLU behind it."""
    torch.manual_seed(layers)
    parts = ([nn.Linear(width, width), nn.ReLU()] for _ in range(layers))
    return nn.Sequential(*(module for part in parts for module in part))


def _split(_rank, _world_size, answer, /, *shape):
    layers, width, samples = shape
    devs = on_devices(2)
    model, x = network(layers, width), torch.rand(samples, width)
    seen = {"layers": layers, "total": 4 * layers * width * (width + 1)}
    seen |= {"names": [str(device) for device in devs], "activation": x.nbytes}
    seen["expected"] = _outcome(copy.deepcopy(model), x.clone())
    before = held(devs)
    forward = answer(model, devs)
    after = held(devs)
    seen["held"] = [after[name] - before[name] for name in seen["names"]]
    seen["first"] = str(next(model.parameters()).device)
    if not callable(forward):
        return seen | {"said": short(forward)}
    mine, kept = x.to(devs[0]).requires_grad_(), []

    def call():
        kept.append(forward(mine))
        return kept[0]

    seen["run"] = watch(call, devs)
    if not torch.is_tensor(kept[0]):
        return seen | {"output": short(kept[0])}
    if kept[0].requires_grad:
        kept[0].square().sum().backward()
    return seen | {"found": [seen["run"].result, to_cpu(mine.grad)]}


def _outcome(model, x):
    """The output of one plain process, and the gradient of its input."""
    x.requires_grad_()
    output = model(x)
    output.square().sum().backward()
    return [output.detach(), x.grad]


def _refuse_other(seen):
    if "said" in seen:
        raise Wrong(
            f"split returned {seen['said']}, expected a function or module",
            "Return something that can be called with x: a small function inside of"
            " split, or an nn.Module. It knows both parts.",
        )
    if "output" in seen:
        raise Wrong(
            f"forward returned {seen['output']}, expected the output as a tensor",
            "Return what the second part computes.",
        )


def _judge_places(seen):
    zero, one = seen["names"]
    mine, total = seen["held"], seen["total"]
    found = f"{zero} holds {size(mine[0])} of parameters, {one} {size(mine[1])}"
    message = f"{found}, expected {size(total / 2)} on each"
    if max(mine) < 0.1 * total:
        raise Wrong(
            message,
            "Move both parts in split itself, once. What is moved inside of forward"
            " travels again with every batch.",
        )
    if sum(mine) > 1.5 * total:
        raise Wrong(
            message,
            "Each device holds the whole model: that saves nothing. Move only the part"
            " that the device needs.",
        )
    if min(mine) < 0.1 * total:
        name = zero if mine[0] > mine[1] else one
        raise Wrong(
            message,
            _why_together(seen["run"], name),
        )
    if min(mine) < 0.4 * total:
        raise Wrong(
            message,
            f"This model has {2 * seen['layers']} modules ({seen['layers']} Linear,"
            f" {seen['layers']} ReLU), others have more or fewer: compute the cut from"
            " len(model).",
        )
    if seen["first"] == one:
        raise Wrong(
            f"the first layer lies on {one}, expected {zero}",
            f"The two halves have changed places. x comes on {zero}, so the first half"
            " belongs there.",
        )


def _why_together(run, name):
    """The hint for parameters that all lie on the device `name`."""
    slices = "model[:k].to(devices[0]), model[k:].to(devices[1])."
    computing = {event.rank for event in run.trace.select(kind="compute")}
    # one that replicates the model computes on both, too
    if len(computing) > 1 and not run.trace.copied(name="broadcast"):
        return (
            f"All layers with parameters lie on {name} (Linear and ReLU alternate)."
            f" Take slices: {slices}"
        )
    return (
        f"Everything lies on {name}. Slices of a Sequential can be moved one by one:"
        f" {slices}"
    )


def _judge_travel(seen):
    run, one = seen["run"], seen["names"][1]
    crossed, activation = run.crossings(), seen["activation"]
    hosted = run.trace.copied(source="cpu") + run.trace.copied(target="cpu")
    if sum(hosted) >= activation:
        raise Wrong(
            f"forward moved {size(sum(hosted))} to or from the CPU, expected nothing",
            "Go straight from one device to the other: x1.to(devices[1]).",
        )
    found = f"{len(crossed)} copies of {size(sum(crossed))} in all cross"
    expected = f"expected one activation of {size(activation)}"
    if len(crossed) == 2 and one not in run.places:
        raise Wrong(
            f"{found}, {expected}",
            f"The output comes back to {run.places[0]}. Leave it on {one}: labels and"
            " loss go there.",
        )
    if sum(crossed) > 1.05 * activation or len(crossed) > 1:
        raise Wrong(
            f"{found}, {expected}",
            "Each copy costs time. Neighbours on one device need none: run the whole"
            " first part, move once, run the whole second part.",
        )
    if one not in run.places:
        raise Wrong(
            f"the output lies on {', '.join(run.places)}, expected {one}",
            f"Run the second part where it lies, on {one}, and return its output.",
        )


def _judge_values(seen):
    (output, slope), (expected, steep) = seen["found"], seen["expected"]
    if output.shape != expected.shape or not _close(output, expected):
        raise Wrong(
            f"the output {short(output)} is not that of the whole model",
            "Every layer takes part once and in order: model[:k], then model[k:], with"
            " the weights that were given.",
        )
    if slope is None or not _close(slope, steep):
        raise Wrong(
            "backward does not reach the input",
            "The copy must stay part of the graph: .to() does. detach(), .data and"
            " no_grad cut it.",
        )


def _close(one, other):
    return torch.allclose(one, other, rtol=0, atol=CLOSE)  # nan is close to nothing


def _why(error):
    found = mixed(error)
    if not found:
        return None
    if "cpu" in found:
        return (
            "Something is still on the CPU. Was each half moved with .to()? x lies on"
            " devices[0] already."
        )
    return (
        f"A tensor on {found[0]} meets one on {found[-1]}. The activation between the"
        " parts does not move by itself: x1.to(devices[1])."
    )
