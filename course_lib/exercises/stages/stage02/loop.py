"""Exercise 2.1: a training with gradient accumulation."""

from functools import partial

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import CLOSE, gap, near, number_of, state_of
from course_lib.exercises.stages.stage02.loop_mistakes import (
    BATCH,
    STEPS,
    network,
    trained,
    why,
    why_losses,
)
from course_lib.exercises.stages.stage02.observer import (
    Observer,
    one_gpu,
    refuse_waste,
    why_failed,
)
from course_lib.text import short, size

_SHARE = 5  # 8 micro-batches may need a fifth of the memory of a whole batch


@baseline.settled()
def check_loop(attempt: Attempt) -> str:
    """Compare weights, steps, losses and peak memory for 8 and for 4 micro-batches."""
    batches = baseline.whole_batches(STEPS, BATCH)
    for parts in (8, 4):
        [seen] = attempt(_train, batches, parts, world_size=1, why=why_failed)
        if parts == 8:
            attempt.picture = partial(_picture, seen["trace"])
            peaks = (
                f"{size(seen['peak'])} at the peak in place of {size(seen['whole'])}"
            )
        _judge_weights(seen, batches, parts)
        _judge_optimizer(seen)
        _judge_losses(seen, batches, parts)
        pieces = STEPS * parts
        refuse_waste(seen["counts"], size=BATCH // parts, whole=BATCH, passes=pieces)
        _refuse_memory(seen, parts)
    return f"weights of whole batches after {STEPS} steps, with {peaks}"


def _train(rank, world_size, answer, /, *given):
    batches, parts = given
    device, _ = one_gpu()
    whole, own = (
        _watched(_plain, batches, count, device=device) for count in (1, parts)
    )
    seen = _watched(answer, batches, parts, device=device)
    return seen | {"whole": whole["peak"], "own": own["peak"]}


def _watched(train, batches, parts, *, device):
    """What a training of a new model gives, and the bytes at its peak."""
    from course_lib.exercises.device_runs import watch

    model = network().to(device)
    optimizer = baseline.optimizer(model)
    observer = Observer(model, optimizer)
    rate = optimizer.param_groups[0]["lr"]
    run = watch(lambda: _described(train(model, optimizer, batches, parts)), [device])
    losses, kind = run.result
    peak = max(run.peak.values()) - max(run.before.values())
    seen = {"losses": losses, "kind": kind, "peak": peak, "trace": run.trace}
    seen["rates"] = rate, optimizer.param_groups[0]["lr"]
    return seen | {"weights": state_of(model), "counts": observer.counts}


def _plain(model, optimizer, *given):
    """Train with right accumulation: what the memory is compared with."""
    batches, parts = given
    device = next(model.parameters()).device
    for images, labels in batches:
        optimizer.zero_grad()
        for x, y in zip(images.chunk(parts), labels.chunk(parts)):
            predicted = model(x.to(device))
            loss = torch.nn.functional.cross_entropy(predicted, y.to(device))
            (loss / parts).backward()
        optimizer.step()


def _described(value):
    """Losses as numbers, and what else is to be known of what came back."""
    values = value.unbind() if torch.is_tensor(value) and value.dim() else value
    if not isinstance(values, list | tuple):
        return short(value), "other"
    graphs = any(torch.is_tensor(v) and v.requires_grad for v in values)
    numbers = [number_of(v.detach() if torch.is_tensor(v) else v) for v in values]
    return numbers, "graph" if graphs else "numbers"


def _judge_weights(seen, batches, parts):
    expected = trained(batches)
    apart = gap(seen["weights"], expected)
    if apart > CLOSE:
        raise Wrong(
            f"after {STEPS} batches in {parts} micro-batches the weights differ from"
            f" those of whole batches by up to {apart:.2g}, expected at most {CLOSE:g}",
            why(seen, batches, parts),
        )


def _judge_optimizer(seen):
    steps, (before, after) = seen["counts"]["steps"], seen["rates"]
    if after != before:
        raise Wrong(
            f"the weights are right, but the optimizer's learning rate is {after:g}"
            f" now, expected {before:g}",
            "A smaller rate hides a gradient that is too large, and stays for the rest"
            " of the training. Leave the rate, divide the losses.",
        )
    if not steps:
        raise Wrong(
            "the weights are right, but the given optimizer took 0 steps, expected"
            f" {STEPS}",
            "Call step on `optimizer`, which is given. One of your own knows neither"
            " its learning rate nor its momentum.",
        )


def _judge_losses(seen, batches, parts):
    means = []
    trained(batches, parts, log=means)
    expected = [sum(part) / parts for part in means]
    found, wanted = seen["losses"], f"expected a list of {len(means)} numbers"
    if seen["kind"] == "other":
        raise Wrong(
            f"the training is right, but it returned {found}, {wanted}",
            "Return the mean loss of each batch in a list.",
        )
    if seen["kind"] == "graph":
        raise Wrong(
            f"the training is right, but the losses still carry their graphs, {wanted}",
            "A logged loss with a graph keeps alive all that backward needs. Log"
            " `loss.item()`, or `loss.detach()`.",
        )
    # float16 or a rounded number is fine for a log
    if len(found) != len(expected) or not all(
        near(one, other, 3e-3 * other) for one, other in zip(found, expected)
    ):
        raise Wrong(
            f"the training is right, but the logged losses are {_listed(found)},"
            f" expected {_listed(expected)}",
            why_losses(found, means, parts),
        )


def _listed(numbers):
    shown = ", ".join("?" if n is None else f"{n:.3f}" for n in numbers[:4])
    return f"[{shown}{', …' if len(numbers) > 4 else ''}]"


def _refuse_memory(seen, parts):
    # on CUDA the workspaces of libraries may be larger than all activations
    allowed = max(seen["whole"] / _SHARE, 1.4 * seen["own"])
    if seen["peak"] > allowed:
        found = (
            f"the peak with {parts} micro-batches was {size(seen['peak'])}, expected at"
            f" most {size(allowed)}"
        )
        logged = seen["counts"]["graphless"]
        if logged > BATCH // parts:
            raise Wrong(
                found,
                f"{logged} samples went through the model at once without a graph. Is"
                " that for the log? The micro-batches' own losses give it for nothing.",
            )
        raise Wrong(
            found,
            "The weights are right, but the graph of one micro-batch is still there"
            " when the next one starts. Who keeps it? retain_graph=True, or a list or a"
            " sum of losses that still have their graphs.",
        )


def _picture(trace):
    from course_lib.plots.memory_over_time import plot_memory_over_time

    return plot_memory_over_time(trace)
