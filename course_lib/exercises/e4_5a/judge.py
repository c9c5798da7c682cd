"""Exercise 4.5a, decided: a training with another order in each epoch."""

import random
from collections.abc import Iterator

from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import draw_steps, refuse_weights
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed

_TEXTS = Texts("4.5a")
_BATCH = 64
_CASES = ((2, 320, 3), (3, 250, 4))  # ranks, samples, epochs


def cases(seed: int) -> Iterator[Case]:
    """Yield the numbers of the exercise, then some that divide into no equal parts."""
    for ranks, count, epochs in _CASES if not seed else _drawn(random.Random(seed)):
        given = {"data": baseline.samples(count), "epochs": epochs}
        yield Case(given, world_size=ranks, trace=True)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        yield ranks, numbers.randint(150, 330), numbers.randint(3, 4)


def judge(case: Case, seen) -> str:
    """Look at what was read in each epoch, then at the weights and the cost."""
    ranks, epochs = case.world_size, case.given["epochs"]
    count, reads = len(case.given["data"][0]), [one["read"] for one in seen]
    _judge_shares(reads, count, epochs)
    orders = list(zip(*(_epochs(read, epochs) for read in reads)))
    for epoch, parts in enumerate(orders):
        _judge_epoch(epoch, parts, count)
    _judge_orders(orders, seen[0]["told"])
    returned, hint = [one["returned"] for one in seen], _TEXTS.hint("the rest")
    refuse_weights(returned, _alone(reads, count), hint=hint)
    _judge_cost(seen, reads)
    return f"{ranks} ranks in {epochs} epochs of {count} samples"


def _judge_shares(reads, count, epochs):
    """Refuse ranks that read too much or too little, in all epochs or in a batch."""
    most, least = -(-count // len(reads)) * epochs, count // len(reads) * epochs
    totals, once = [sum(map(len, read)) for read in reads], _BATCH // len(reads)
    largest = [max(map(len, read), default=0) for read in reads]
    facts = (("samples", totals, most, least, most), ("batch", largest, once, 0, once))
    _TEXTS.refuse(facts, epochs=epochs)


def _epochs(read, epochs):
    """The samples of each epoch in order, of one rank."""
    every = [number for batch in read for number in batch]
    length = len(every) // epochs
    return [every[i * length : (i + 1) * length] for i in range(epochs)]


def _judge_epoch(epoch, parts, count):
    """Refuse an epoch in which the ranks together do not read the samples."""
    every, right = set().union(*parts), set(range(count))
    if every != right:
        fill = {"ranks": len(parts), "read": len(every & right), "count": count}
        raise _TEXTS.wrong("left out", epoch=epoch, **fill)


def _judge_orders(orders, told):
    """Refuse an epoch that has the order of an earlier one on every rank."""
    firsts = [orders.index(order) for order in orders]
    for epoch, first in enumerate(firsts):
        if first < epoch:
            raise _TEXTS.wrong(
                "repeated",
                clue={"orders": firsts, "told": [told.index(n) for n in told]},
                also={"stored": orders[0][0] == sorted(orders[0][0])},
                epoch=epoch,
                first=first,
                told=f"called with {listed(told[:8])}" if told else "never called",
            )


def _alone(reads, count):
    """The weights of one process that takes the batches of all ranks together."""
    images, labels = baseline.samples(count)
    model = baseline.network()
    optimizer = baseline.optimizer(model)
    for parts in zip(*reads):
        optimizer.zero_grad()
        losses = [cross_entropy(model(images[part]), labels[part]) for part in parts]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return model.state_dict()


def _judge_cost(seen, reads):
    """Refuse work done again or elsewhere, other traffic, and a group not left."""
    work = sum(map(len, reads[0])) * seen[0]["baseline"]["flops"]
    size = len(reads[0]) * baseline.size(baseline.network())
    facts = (
        ("work", [one["flops"] for one in seen], work, 0.6 * work, 1.6 * work),
        ("travel", [one["reduced"] for one in seen], size, 0.9 * size, 1.8 * size),
        ("not left", [int(not one["left"]) for one in seen], 0, 0, 0),
    )
    _TEXTS.refuse(facts)


def draw(case: Case, seen):
    """Draw the timeline of the fourth and fifth step."""
    return draw_steps(seen.trace, 2, 4)
