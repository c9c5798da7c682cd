"""Exercise 3.2: replicas that a hand-written loop keeps equal, or does not."""

from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import gap, state_of
from course_lib.exercises.device_runs import on_devices, watch
from course_lib.exercises.stages.stage03.drifting_mistakes import (
    trained,
    why,
    why_apart,
    why_bytes,
    why_raised,
)
from course_lib.exercises.stages.stage03.watching import count_rows, refuse_lazy
from course_lib.text import short
from course_lib.text import size as said

STEPS, BATCH = 5, 48
_CLOSE = 1e-5  # weights; the planted mistake moves them by more than 1e-2


@baseline.settled()
def check_drifting(attempt: Attempt) -> str:
    """Compare all replicas with each other, with one device, and count the bytes."""
    data = baseline.whole_batches(STEPS, BATCH)
    expected = trained(data)
    for count in (4, 3):
        (run,) = attempt(_train, data, count, world_size=1, why=why_raised)
        names, found = run["devices"], run["replicas"]
        _refuse_other(run, expected)
        for number, name in enumerate(names):
            apart = gap(found[0], found[number])
            if apart > _CLOSE:
                raise Wrong(
                    f"{STEPS} steps on {count} devices: the replica on {name} differs"
                    f" from that on {names[0]} by up to {apart:.2g}, expected 0",
                    why_apart(found, run["start"]),
                )
        apart = gap(found[0], expected)
        if apart > _CLOSE:
            raise Wrong(
                f"{STEPS} steps on {count} devices: all replicas agree, but differ from"
                f" one device with whole batches by up to {apart:.2g}",
                why(found[0], data, start=run["start"], count=count),
            )
        rows, trace = run["rows"], run["trace"]
        refuse_lazy(rows, names, trace=trace, batch=BATCH, steps=STEPS)
        _refuse_waste(run, data[0])
    return (
        f"all replicas on 3 and 4 devices agree and have the weights of one device;"
        f" {said(sum(trace.copied()) / STEPS)} per step on {count}"
    )


def _train(rank, world_size, answer, /, *given):
    data, count = given
    devs = on_devices(count)
    model = baseline.network().to(devs[0])
    rows = count_rows(model)
    data = [[part.to(devs[0]) for part in batch] for batch in data]
    start, returned = state_of(model), []
    # the replicas are kept here: what is watched hands copies back
    run = watch(lambda: returned.append(answer(model, data, devs)), devs)
    replicas = returned[0]
    listed = isinstance(replicas, list | tuple)
    return {
        "devices": [str(device) for device in devs],
        "said": _said(replicas),
        "replicas": [state_of(one) for one in replicas] if listed else [],
        "places": [_place(one) for one in replicas] if listed else [],
        "start": start,
        "rows": dict(rows),
        "trace": run.trace,
    }


def _said(value):
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"a {type(value).__name__}" if isinstance(value, nn.Module) else short(value)


def _place(replica):
    """The device of a module, or nothing."""
    if not isinstance(replica, nn.Module):
        return ""
    places = sorted({str(p.device) for p in replica.parameters()})
    return " and ".join(places)


def _refuse_other(run, expected):
    names, places = run["devices"], run["places"]
    if len(places) != len(names):
        raise Wrong(
            f"returned {run['said']}, expected the list of {len(names)} replicas",
            "Return replicas, the list with one model for each device, in the order of"
            " devices.",
        )
    for name, place, state in zip(names, places, run["replicas"]):
        if isinstance(state, str) or set(state) != set(expected):
            raise Wrong(
                f"the replica of {name} is {short(state)}, expected a model",
                "Return the replicas themselves, each a copy of the model.",
            )
        if place != name:
            raise Wrong(
                f"the replica that belongs on {name} is on {place or 'no device'}",
                "One replica lives on each device, in the order of devices, and stays"
                " there.",
            )


def _refuse_waste(run, batch):
    """Refuse more per step than chunks out, gradients home, and their mean back."""
    count, size = len(run["devices"]), baseline.size(baseline.network())
    per_step = 2 * (count - 1) * size + BATCH * (4 * 64 + 8)
    needed = STEPS * per_step + (count - 1) * size  # the copies at the start
    found = sum(run["trace"].copied())
    if found > 1.1 * needed:
        raise Wrong(
            f"{said(found)} travelled in {STEPS} steps on {count} devices, expected at"
            f" most {said(1.1 * needed)}",
            why_bytes(run, batch, size=size, steps=STEPS),
        )
