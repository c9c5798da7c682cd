"""Exercise 4.5a, decided: a training with another order in each epoch."""

import functools
import random
from collections.abc import Iterator

from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, agree, gap, steps_of
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e4_5b import state
from course_lib.exercises.observe.e4_5a import observe
from course_lib.text import listed, many

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
    _refuse_share(reads, count, epochs)
    _refuse_batches(reads, ranks)
    orders = [_epochs(read, epochs) for read in reads]
    _refuse_left_out(orders, count)
    _refuse_repeated(orders, [result["told"] for result in seen])
    expected = _alone(tuple(map(tuple, reads)), count)
    states = [state(result["returned"]) for result in seen]
    found = agree(states, expected, hint=_GRADIENTS)
    if gap(found, expected) > CLOSE:
        raise Wrong(
            f"the weights of {ranks} ranks differ from those of one process with the"
            f" same batches by up to {gap(found, expected):.2g}, expected at most"
            f" {CLOSE:g}",
            "Samples and batches are right. The rest is as in the function that was"
            f" copied: mean cross-entropy, SGD with rate {baseline.RATE}, zero_grad"
            " before each backward, gradients averaged by DDP.",
        )
    for rank, result in enumerate(seen):
        _refuse_cost(result, reads[rank], f"rank {rank} of {ranks}")
    return f"{ranks} ranks in {epochs} epochs of {count} samples"


_GRADIENTS = (
    "Do the ranks start from the same weights, and do gradients travel in each step?"
    " Wrap the model, DDP(model), and call the wrapped one."
)


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


def _refuse_batches(reads, ranks):
    most = _BATCH // ranks
    for rank, read in enumerate(reads):
        largest = max(map(len, read), default=0)
        if largest > most:
            raise Wrong(
                f"rank {rank} of {ranks} takes {largest} samples in a batch, expected"
                f" {most}",
                f"All ranks together take {_BATCH} samples in a step: keep the division"
                " by world_size.",
            )


def _refuse_share(reads, count, epochs):
    """Refuse ranks that read too much, or too little, in all epochs together."""
    ranks, totals = len(reads), [sum(map(len, read)) for read in reads]
    steps = set(map(len, reads))
    share = -(-count // ranks)
    for rank, total in enumerate(totals):
        if total % epochs or total // epochs not in (share, count // ranks):
            raise Wrong(
                f"rank {rank} of {ranks} trained with {many(total, 'sample')}, expected"
                f" {epochs * share:,}: {many(epochs, 'epoch')} of {share}",
                _why_share(totals, count, epochs),
                clue={"samples": [one / (epochs * share) for one in totals]},
            )
    if len(steps) > 1:
        raise Wrong(
            f"the {ranks} ranks took {listed(map(len, reads))} batches, expected as"
            " many on each",
            "Each backward waits for those of all ranks: shards of one length, batches"
            " of one size.",
        )


def _why_share(totals, count, epochs):
    share = -(-count // len(totals))
    if len(set(totals)) > 1:
        return (
            f"The ranks trained with {listed(totals)} samples: some do the work of"
            " others. Let each rank take its own share of each batch."
        )
    if totals[0] == epochs * count:
        return (
            "Every rank reads all the data, and does the work of one process. Share it"
            " out by a DistributedSampler."
        )
    if totals[0] % share == 0:
        return (
            f"That is {many(totals[0] // share, 'epoch')} instead of {epochs}: is the"
            " loop over epochs still the same?"
        )
    return (
        "An epoch shows each sample to one rank. Is the data cut twice, or dealt to"
        " another number of ranks? DistributedSampler(data) knows them from the group."
    )


def _epochs(read, epochs):
    """The samples of each epoch in order, of one rank."""
    every = [number for batch in read for number in batch]
    length = len(every) // epochs
    return [tuple(every[i * length : (i + 1) * length]) for i in range(epochs)]


def _refuse_left_out(orders, count):
    """Refuse an epoch in which the ranks together do not read all samples."""
    for epoch, parts in enumerate(zip(*orders)):
        every = {number for part in parts for number in part}
        if not every <= set(range(count)):
            raise Wrong(
                f"in epoch {epoch} samples are trained that are not in the data",
                "Give the images to the model as they are in `data`.",
            )
        if len(every) < count:
            raise Wrong(
                f"in epoch {epoch} all {len(orders)} ranks together read"
                f" {len(every)} of {count} samples",
                "Ranks 0 and 1 read the same samples. Each sampler needs its own rank,"
                " which it knows from the group."
                if set(parts[0]) == set(parts[1])
                else "Some samples are read by several ranks and others by none: they"
                " shuffle differently. All ranks need the same seed and epoch.",
            )


def _refuse_repeated(orders, told):
    """Refuse an epoch that has the order of an earlier one on every rank."""
    every = list(zip(*orders))
    firsts = [every.index(order) for order in every]
    for epoch, first in enumerate(firsts):
        if first < epoch:
            stored = every[0][0] == tuple(sorted(every[0][0]))
            raise Wrong(
                f"epoch {epoch} brings the samples in the order of epoch {first}",
                _why_repeated(told[0], stored),
                clue={"orders": firsts, "told": [told[0].index(n) for n in told[0]]},
                also={"stored": stored},
            )


def _why_repeated(told, stored):
    if stored:
        return (
            "The samples come in the order in which they are stored. Let the sampler"
            " shuffle."
        )
    numbers = f"was called with {listed(told[:8])}" if told else "was never called"
    return (
        "Each epoch needs a number of its own, on all ranks, before its loop over the"
        f" batches begins: sampler.set_epoch(epoch). Here set_epoch {numbers}. The"
        " loader must ask that sampler."
    )


def _refuse_cost(result, read, where):
    size, samples = baseline.size(baseline.network()), sum(map(len, read))
    work = result["flops"] / (samples * result["baseline"]["flops"])
    if not 0.6 < work < 1.6:
        raise Wrong(
            f"{where} computed {work:.2g} times what its samples need, expected 1",
            "The weights are right, but some work is done again, or elsewhere.",
        )
    times = result["reduced"] / (len(read) * size)
    if not 0.9 < times < 1.8:
        raise Wrong(
            f"{where} all-reduced {times:.2g} times the gradients of its steps,"
            " expected 1",
            "The weights are right, but gradients travel twice, or not by DDP: wrap the"
            " model, call the wrapped one, and add no all_reduce.",
        )
    if not result["left"]:
        raise Wrong(
            f"{where} returned while it was in the group",
            "The weights are right. Leave the group before `return`, on every rank:"
            " dist.destroy_process_group().",
        )


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
