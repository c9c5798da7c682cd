"""Exercise 4.5a, decided: a training with another order in each epoch."""

import functools
import random
from collections.abc import Iterator

from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, agree, gap, steps_of
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.judge.e4_5b import state
from course_lib.exercises.observe.e4_5a import observe
from course_lib.exercises.texts import Texts
from course_lib.text import listed, many

_TEXTS = Texts("4.5a")
_BATCH = 64
_CASES = ((2, 320, 3), (3, 250, 4))  # ranks, samples, epochs


def cases(seed: int) -> Iterator[Case]:
    """The numbers of the exercise, then some that divide into no equal parts."""
    for ranks, count, epochs in _CASES if not seed else _drawn(random.Random(seed)):
        given = {"data": baseline.samples(count), "epochs": epochs}
        yield Case(given, world_size=ranks, trace=True)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        yield ranks, numbers.randint(150, 330), numbers.randint(3, 4)


def judge(case: Case, seen) -> str:
    """Look at what was read in each epoch, then at the weights and the cost."""
    ranks, epochs = case.world_size, case.given["epochs"]
    count = len(case.given["data"][0])
    reads = [[tuple(batch) for batch in result["read"]] for result in seen]
    _judge_shares(reads, count, epochs)
    orders = list(zip(*(_epochs(read, epochs) for read in reads)))
    for epoch, parts in enumerate(orders):
        _judge_epoch(epoch, parts, count)
    _judge_orders(orders, seen[0]["told"])
    _judge_weights(seen, _alone(tuple(map(tuple, reads)), count))
    for rank, result in enumerate(seen):
        _judge_cost(result, reads[rank], {"rank": rank, "ranks": ranks})
    return f"{ranks} ranks in {epochs} epochs of {count} samples"


def _judge_shares(reads, count, epochs):
    """Refuse ranks that read too much or too little, in all epochs or in a batch."""
    ranks, totals = len(reads), [sum(map(len, read)) for read in reads]
    share, most = -(-count // ranks), _BATCH // ranks
    for rank, total in enumerate(totals):
        if total % epochs or total // epochs not in (share, count // ranks):
            raise _TEXTS.wrong(
                "samples",
                why=_why_share(totals, share, epochs * count),
                clue={"samples": [one / (epochs * share) for one in totals]},
                rank=rank,
                ranks=ranks,
                samples=many(total, "sample"),
                expected=epochs * share,
                passes=many(epochs, "epoch"),
                share=share,
                totals=listed(totals),
                times=many(totals[0] // share, "epoch"),
                epochs=epochs,
            )
    steps = list(map(len, reads))
    if len(set(steps)) > 1:
        raise _TEXTS.wrong("steps", ranks=ranks, steps=listed(steps))
    for rank, read in enumerate(reads):
        largest = max(map(len, read), default=0)
        if largest > most:
            fill = {"rank": rank, "ranks": ranks, "largest": largest, "most": most}
            raise _TEXTS.wrong("batch", batch=_BATCH, **fill)


def _why_share(totals, share, every):
    if len(set(totals)) > 1:
        return "unequal"
    if totals[0] == every:
        return "all the data"
    return "cut twice" if totals[0] % share else "other epochs"


def _epochs(read, epochs):
    """The samples of each epoch in order, of one rank."""
    every = [number for batch in read for number in batch]
    length = len(every) // epochs
    return [tuple(every[i * length : (i + 1) * length]) for i in range(epochs)]


def _judge_epoch(epoch, parts, count):
    """Refuse an epoch in which the ranks together do not read all samples."""
    every = set().union(*parts)
    if not every <= set(range(count)):
        raise _TEXTS.wrong("strangers", epoch=epoch)
    if len(every) < count:
        why = "same rank" if set(parts[0]) == set(parts[1]) else "other shuffles"
        fill = {"ranks": len(parts), "read": len(every), "count": count}
        raise _TEXTS.wrong("left out", why=why, epoch=epoch, **fill)


def _judge_orders(orders, told):
    """Refuse an epoch that has the order of an earlier one on every rank."""
    firsts = [orders.index(order) for order in orders]
    stored = orders[0][0] == tuple(sorted(orders[0][0]))
    for epoch, first in enumerate(firsts):
        if first < epoch:
            raise _TEXTS.wrong(
                "repeated",
                why="as stored" if stored else "set_epoch",
                clue={"orders": firsts, "told": [told.index(n) for n in told]},
                also={"stored": stored},
                epoch=epoch,
                first=first,
                told=f"called with {listed(told[:8])}" if told else "never called",
            )


def _judge_weights(seen, expected):
    states = [state(result["returned"]) for result in seen]
    off = gap(agree(states, expected, hint=_TEXTS.hint("gradients")), expected)
    if off > CLOSE:
        fill = {"ranks": len(seen), "off": off, "most": CLOSE}
        raise _TEXTS.wrong("weights", rate=baseline.RATE, **fill)


@functools.lru_cache(maxsize=4)
def _alone(reads, count):
    """The weights of one process that takes the batches of all ranks together."""
    images, labels = baseline.samples(count)
    model = baseline.network()
    optimizer = baseline.optimizer(model)
    for parts in zip(*reads):
        optimizer.zero_grad()
        for part in map(list, parts):
            loss = cross_entropy(model(images[part]), labels[part])
            (loss / len(parts)).backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def _judge_cost(result, read, where):
    work = result["flops"] / (sum(map(len, read)) * result["baseline"]["flops"])
    if not 0.6 < work < 1.6:
        raise _TEXTS.wrong("work", work=work, **where)
    times = result["reduced"] / (len(read) * baseline.size(baseline.network()))
    if not 0.9 < times < 1.8:
        raise _TEXTS.wrong("travel", times=times, **where)
    if not result["left"]:
        raise _TEXTS.wrong("not left", **where)


def draw(case: Case, seen):
    """The timeline of the fourth and fifth step, or of all that was recorded."""
    from course_lib.plots.timeline import plot_timeline

    return plot_timeline(steps_of(seen.trace, 2, 4) or seen.trace)


EXERCISE = Exercise(
    "4.5a",
    observe,
    cases,
    judge,
    proof="each epoch has an order of its own, and {} end with the weights of one"
    " process",
    draw=draw,
)
