"""What goes wrong in a training with gradient accumulation, and the hint for it."""

import contextlib
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, gap, mistaken, near

STEPS, BATCH = 4, 48

_INNER_STEP = (
    "The optimizer steps after each micro-batch, so they never become one batch. Add up"
    " all of them, then step once."
)
_WIPED = (
    "Only the last micro-batch counts: zero_grad in the inner loop wipes out the"
    " others. Call it once for each batch."
)
_SAMPLES = (
    "The loss of a micro-batch is a mean already. Divide it by the number of"
    " micro-batches, not by a number of samples."
)
# hints, and what `trained` is told to make the mistake
_MISTAKES = (
    (
        "The gradients are a sum over micro-batches, so each step is far too long."
        " Divide each loss by their number.",
        {"factor": lambda i, k: 1},
    ),
    (
        "You divide by k twice. Divide the losses or the gradients, not both.",
        {"factor": lambda i, k: 1 / k**2},
    ),
    (_SAMPLES, {"factor": lambda i, k: k / BATCH}),
    (_SAMPLES, {"factor": lambda i, k: 1 / BATCH}),
    (_WIPED, {"factor": lambda i, k: i == k - 1}),
    (_WIPED, {"factor": lambda i, k: (i == k - 1) / k}),
    (
        "`.grad` is divided after every micro-batch, so what is in it already is"
        " divided again and again. Divide once, before the step.",
        {"factor": lambda i, k: k ** (i - k)},
    ),
    (
        "Only the last loss is divided. Divide every one.",
        {"factor": lambda i, k: 1 / k if i == k - 1 else 1},
    ),
    (
        "The gradients of earlier steps are still there: zero_grad is missing. Call"
        " it once for each batch.",
        {"zero": False},
    ),
    (
        "Two things: the losses are not divided by k, and without zero_grad the"
        " gradients of earlier batches stay.",
        {"zero": False, "factor": lambda i, k: 1},
    ),
    (
        "The last micro-batch is left out. `chunk(k)` gives k pieces; step after"
        " all of them.",
        {"factor": lambda i, k: (i != k - 1) / k},
    ),
    (
        "The first micro-batch is left out: zero_grad comes after it.",
        {"factor": lambda i, k: (i != 0) / k},
    ),
)


def network():
    """A convolutional network with much more to remember than parameters."""
    with baseline.seeded():
        layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
        for _ in range(5):
            layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10))


@contextlib.contextmanager
def _one_thread():
    """Small operators in one thread: several only wait for each other."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


@_one_thread()
def trained(batches, parts=1, *, factor=None, zero=True, each=False, log=None):
    """The weights after a step per batch, with mistakes if it is told to make them.

    `factor(i, parts)` weighs the loss of micro-batch i, `each` steps after every one,
    `log` takes the list of losses of each batch.
    """
    factor = factor or (lambda i, parts: 1 / parts)
    model = network()
    sgd = baseline.optimizer(model)
    for images, labels in batches:
        losses = []
        if zero:
            sgd.zero_grad()
        for i, (x, y) in enumerate(zip(images.chunk(parts), labels.chunk(parts))):
            losses.append(cross_entropy(model(x), y))
            (factor(i, parts) * losses[-1]).backward()
            if each:
                sgd.step()
                sgd.zero_grad()
        sgd.step()
        if log is not None:
            log.append([loss.item() for loss in losses])
    return model.state_dict()


def why(seen, batches, parts):
    """The hint for weights that are not those of whole batches."""
    found, counts = seen["weights"], seen["counts"]
    steps, largest = counts["steps"], counts["largest"]
    if not counts["passes"]:
        return "No micro-batch goes through the model."
    if not counts["smallest"]:
        return (
            "An empty micro-batch, 0 samples, went through the model. How many has"
            " each? `len(images) // num_microbatches`."
        )
    if largest == BATCH and counts["passes"] <= STEPS:
        return (
            "Each pair in `batches` is a whole batch, not a micro-batch. Cut it with an"
            " inner loop, and step after that loop."
        )
    if steps > STEPS:
        return _INNER_STEP
    hint = mistaken(found, _MISTAKES, partial(trained, batches, parts))
    if hint:
        return hint
    if largest not in (BATCH, BATCH // parts):
        return (
            f"{largest} samples went through the model at once, not {BATCH // parts}:"
            " `split(k)` gives pieces of k samples, `chunk(k)` gives k pieces."
        )
    if gap(found, network().state_dict()) < CLOSE:
        return (
            "These are the weights of the start: the optimizer never steps."
            if not steps
            else "These are the weights of the start: zero_grad stands between backward"
            " and step, and wipes out what step needs. Call it before the loop."
        )
    if steps < STEPS:
        return (
            f"The optimizer took {steps} of {STEPS} steps. Take one for each of the"
            " batches. Does `return` or `step` stand in the right loop?"
        )
    return (
        "Each micro-batch adds its mean loss, divided by their number. One zero_grad"
        " and one step for each batch."
    )


def why_losses(found, means, parts):
    """The hint for other numbers than the mean loss of each batch; `means` per part."""

    def all_near(expected):
        return all(near(one, other, 1e-3) for one, other in zip(found, expected))

    if len(found) == len(means) * parts:
        return "One number for each batch, not for each micro-batch: add them up."
    if len(found) != len(means):
        return "One number for each batch, in order."
    if all_near([sum(part) for part in means]):
        return f"These are sums over {parts} micro-batches. Log the mean."
    if all_near([part[-1] for part in means]):
        return "This is the loss of the last micro-batch alone. Log the mean of all."
    if all_near([part[-1] / parts for part in means]):
        return "This is the last micro-batch's share alone. Add up the shares of all."
    if all_near([sum(part) / parts**2 for part in means]):
        return "The logged loss is divided twice."
    totals = [sum(map(sum, means[: i + 1])) / parts for i in range(len(means))]
    if all_near(totals):
        return "The sum goes on from batch to batch: start it at 0 for each batch."
    return "Log the mean of the micro-batches' losses, before the step."
