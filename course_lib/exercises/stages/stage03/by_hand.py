"""Exercise 3.1: one data-parallel step from `.to`, `chunk` and `cat`."""

from functools import partial

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import gap, grads_of, near, number_of, state_of
from course_lib.exercises.device_runs import on_devices, to_cpu, watch
from course_lib.exercises.stages.stage03.by_hand_errors import why_raised
from course_lib.exercises.stages.stage03.by_hand_mistakes import (
    Full,
    Part,
    why_bytes,
    why_gradients,
    why_loss,
)
from course_lib.exercises.stages.stage03.watching import (
    count_rows,
    draw,
    refuse_lazy,
    shares,
)
from course_lib.text import short
from course_lib.text import size as said

# devices, samples; the first is drawn, the third has fewer chunks than devices
_CASES = ((4, 400), (4, 10), (4, 9), (3, 100))
_CLOSE = 1e-6  # gradients here are about 0.01 to 0.1


@baseline.settled()
def check_step(attempt: Attempt) -> str:
    """Compare gradients and loss with the full batch's, and count what travels."""
    for count, batch in _CASES:
        why = partial(why_raised, count=count, batch=batch)
        (run,) = attempt(_two_steps, count, batch, world_size=1, why=why)
        if (count, batch) == _CASES[0]:
            draw(attempt, run["trace"])
        for number, step in enumerate(run["steps"]):
            _judge(step, run, number=number, batch=batch)
        if batch >= 100:
            trace, names = run["trace"], run["devices"]
            refuse_lazy(run["rows"], names, trace=trace, batch=batch)
            _refuse_waste(run, batch=batch)
    travels = sum(run["trace"].copied())
    return (
        "gradients of the full batch on 3 and 4 devices, even and uneven;"
        f" {said(travels)} travelled for {batch} samples on {count} devices"
    )


def _two_steps(rank, world_size, answer, /, *given):
    """Two steps in a row: replicas kept from the first would be old in the second."""
    count, batch = given
    devs = on_devices(count)
    model = baseline.network().to(devs[0])
    data = [part.to(devs[0]) for part in baseline.samples(2 * batch)]
    rows, steps, runs, seen = count_rows(model), [], [], []
    for number in range(2):
        mine = [part[number * batch :][:batch] for part in data]
        before = state_of(model)
        runs.append(watch(partial(answer, model, *mine, devs), devs))
        seen.append(dict(rows))
        steps.append(_found(model, before, loss=runs[-1].result))
        _advance(model)
    names = [str(device) for device in devs]
    shown = {"rows": seen[0], "trace": runs[0].trace}
    return {"devices": names, "steps": steps, **shown}


def _advance(model):
    """One step of plain SGD, and no gradients after it."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= baseline.RATE * parameter.grad
            parameter.grad = None


def _found(model, before, *, loss):
    """What one call of the answer left behind, as plain data."""
    return {
        "before": before,
        "after": state_of(model),
        "gradients": to_cpu(grads_of(model)),
        "places": sorted({str(p.device) for p in model.parameters()}),
        "loss": number_of(loss),
        "said": short(loss),
    }


def _refuse_changed(step, first):
    """Refuse a model that was moved or stepped, or that got no gradients."""
    if step["places"] != [first]:
        raise Wrong(
            f"the model is on {step['places'][-1]} after the step, expected on {first}",
            "model.to(device) moves the model itself, not a copy. Copy it first:"
            " copy.deepcopy(model).to(device).",
        )
    for name, value in step["before"].items():
        if not torch.equal(value, step["after"][name]):
            raise Wrong(
                f"the step changed {name} itself, expected to find its gradient",
                "Leave the weights alone: the optimizer of the training takes the step,"
                " with the gradients that you leave in model.",
            )
    none = [name for name, value in step["gradients"].items() if value is None]
    if none:
        raise Wrong(
            f"{none[0]} of the model on {first} has no gradient after the step",
            "The gradients are in the replicas, or nowhere. Bring them home: add up"
            " .grad.to(devices[0]) of all replicas in the parameters of model.",
        )


def _judge(step, run, *, number, batch):
    """Compare the gradients and the loss of one call with the full batch's."""
    _refuse_changed(step, run["devices"][0])
    count = len(run["devices"])
    where = f"{batch} samples on {count} devices"
    cut = slice(number * batch, (number + 1) * batch)
    images, labels = (part[cut] for part in baseline.samples(2 * batch))
    full = Full(step["before"], images, labels)
    expected, loss = full.gradients()
    apart = gap(step["gradients"], expected)
    if apart > _CLOSE:
        again = " (second step)" * number
        raise Wrong(
            f"{where}{again}: the gradients differ from those of the full batch by up"
            f" to {apart:.2g}, expected at most {_CLOSE:g}",
            why_gradients(step["gradients"], full, count=count, again=number),
        )
    if not near(step["loss"], loss, 1e-5):
        given = step["said"] if step["loss"] is None else f"{step['loss']:.4f}"
        raise Wrong(
            f"{where}: returned {given}, expected the mean loss {loss:.4f}",
            why_loss(step["loss"], full, count=count),
        )


def _refuse_waste(run, *, batch):
    """Refuse what travels beyond weights, inputs, labels and gradients."""
    names, trace = run["devices"], run["trace"]
    count, first = len(names), names[0]
    own = shares(batch, count)[0]
    size = baseline.size(baseline.network())
    sample = 4 * 64 + 8  # an image and its label
    needed = 2 * (count - 1) * size + (batch - own) * sample
    # a loss of 4 bytes for each sample may come and its gradient go
    allowed = 1.02 * needed + 8 * batch + 256
    found = sum(trace.copied())
    if found <= allowed:
        return
    part = Part(size, batch=batch, share=own, sample=sample)
    sent = {name: sum(trace.copied(source=first, target=name)) for name in names[1:]}
    back = {name: sum(trace.copied(source=name, target=first)) for name in names[1:]}
    raise Wrong(
        f"{said(found)} travelled in one step of {batch} samples on {count} devices,"
        f" expected at most {said(allowed)}",
        why_bytes(part, sent=sent, back=back, transfers=trace.transfers),
    )
