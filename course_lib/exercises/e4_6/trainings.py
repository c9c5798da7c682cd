"""Exercise 4.6: what ranks are given, and what one process makes of all of it."""

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import state_of
from course_lib.gpt import GPT

PADDING = -100
_SGD = functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9)
# a small `eps` would make much of rounding
_ADAM = functools.partial(torch.optim.Adam, lr=0.01, eps=1e-3)
# shares of real targets: each rank has one of the first, and less in later pairs
_SHARES, _LATER = (1.0, 0.25, 0.5, 0.15, 0.8), (1.0, 0.4, 0.7, 0.9)


@dataclass(frozen=True)
class TokenPart:
    """A micro-batch: the sum of its real targets' losses, of which this is `gradient`.

    `targets` counts all of them, `real` those that are no padding.
    """

    loss: float
    gradient: dict
    real: int
    targets: int


@dataclass(frozen=True)
class TokenStep:
    """A right step: `parts` by rank and place, and the weights after it."""

    parts: dict
    weights: dict

    def total(self, name: str) -> float:
        """Return the sum of a number over all micro-batches of all ranks."""
        return sum(getattr(part, name) for part in self.parts.values())

    @functools.cached_property
    def gradient(self) -> dict:
        """That of the mean over all real targets."""
        parts, real = list(self.parts.values()), self.total("real")
        return {n: sum(p.gradient[n] for p in parts) / real for n in parts[0].gradient}


def trainings(seed: int) -> Iterator[tuple[int, dict]]:
    """Yield ranks and what an answer is given: steps as lists of pairs for each rank.

    First all pairs have one shape, and real targets. Then some have none, the last of
    a rank among them; then all pairs of a rank; then there is one rank.
    """
    numbers = random.Random(seed)
    ranks = (2, 3, 5) if not seed else numbers.sample((2, 3, 4, 5), 3)
    size = numbers.randint(13, 40) if seed else 23
    table = functools.partial(
        table_model, vocabulary=size, width=numbers.choice((8, 12, 20))
    )
    gpt = functools.partial(small_gpt, width=16)
    same = [[(3 + number, 9)] * parts for number, parts in enumerate((3, 2))]
    drawn = functools.partial(_shapes, numbers)
    last, first = ranks[1] - 1, numbers.randrange(ranks[2])
    whole = [(first, part) for part in range(2)], [((first + 1) % ranks[2], 0)]
    for count, model, optimizer, shapes, empty in (
        (ranks[0], table, _SGD, same, ([], [])),
        (ranks[1], gpt, _ADAM, drawn(2, 4), ([(last, 1)], [(0, 0), (0, 2), (last, 3)])),
        (ranks[2], table, _ADAM, drawn(2, 1), whole),
        (1, table, _SGD, drawn(4, 1), ([(0, 1), (0, 3)], [])),
    ):
        vocabulary = 96 if model is gpt else size
        steps = [
            _step(numbers, count, vocabulary, sizes, without)
            for sizes, without in zip(shapes, empty)
        ]
        yield count, {"model": model, "optimizer": optimizer, "steps": steps}


def table_model(seed: int, vocabulary: int, width: int) -> nn.Module:
    """Return a model that looks at one token alone: a table and a layer."""
    with baseline.seeded(seed):
        return nn.Sequential(
            nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        )


def small_gpt(seed: int, width: int) -> nn.Module:
    """Return a GPT of one layer."""
    with baseline.seeded(seed):
        return GPT(context=16, width=width, heads=2, layers=1)


def _shapes(numbers, *counts):
    """For each step as many shapes as it has pairs on a rank."""
    return [
        [(numbers.randint(2, 5), numbers.randint(4, 13)) for _ in range(parts)]
        for parts in counts
    ]


def _step(numbers, ranks, vocabulary, sizes, without):
    """The pairs of each rank for one step; those of places in `without` are padding."""
    shares = numbers.sample(_SHARES[:ranks], ranks)
    return [
        [
            _pair(
                numbers,
                vocabulary,
                sizes[(part + rank) % len(sizes)],
                0 if (rank, part) in without else share * _LATER[part],
            )
            for part in range(len(sizes))
        ]
        for rank, share in enumerate(shares)
    ]


def _pair(numbers, vocabulary, size, share):
    """Tokens and targets, real up to an end of its own in each row."""
    order = torch.Generator().manual_seed(numbers.randrange(2**31))
    tokens = torch.randint(vocabulary, size, generator=order)
    targets = torch.randint(vocabulary, size, generator=order)
    for row in targets:
        most = share * len(row)
        row[round(numbers.uniform(most / 2, most)) :] = PADDING
    if share:
        targets[0, 0] = tokens[0, 0]  # one real target at least
    tokens[targets == PADDING] = 0
    return tokens, targets


def trained(given: dict) -> list[TokenStep]:
    """Return the steps of one process that has the pairs of all ranks."""
    model = given["model"](seed=0)  # DDP takes the weights of rank 0
    optimizer, steps = given["optimizer"](model.parameters()), []
    for ranks in given["steps"]:
        parts = {
            (rank, place): _part(model, *pair)
            for rank, pairs in enumerate(ranks)
            for place, pair in enumerate(pairs)
        }
        for name, grad in TokenStep(parts, {}).gradient.items():
            model.get_parameter(name).grad = grad
        optimizer.step()
        steps.append(TokenStep(parts, state_of(model)))
    return steps


def _part(model, tokens, targets):
    names, parameters = zip(*model.named_parameters())
    loss = loss_of(model, tokens, targets)
    gradients = torch.autograd.grad(loss, parameters)
    real = int((targets != PADDING).sum())
    return TokenPart(loss.item(), dict(zip(names, gradients)), real, targets.numel())


def loss_of(model: nn.Module, tokens, targets) -> torch.Tensor:
    """Return the sum of the losses of all real targets, 0 if there are none."""
    logits = model(tokens).flatten(0, 1)
    return cross_entropy(logits, targets.flatten(), reduction="sum")


def without_targets(steps: list) -> list[int]:
    """Return the ranks that have a pair, in any step, without a real target."""
    return [
        rank
        for rank, every in enumerate(zip(*steps))
        if any((y == PADDING).all() for _, y in itertools.chain(*every))
    ]
