"""Exercise 9.3: the training of one process that has the batches of all ranks."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

_REST = 0.01  # of a gradient, that no micro-batch explains


@dataclass(frozen=True)
class StepTaken:
    """Weights before and after a step, and its gradients, as parameters() has them."""

    before: list[Tensor]
    gradients: list[Tensor]
    after: list[Tensor]


def trained(given: dict) -> list[StepTaken]:
    """Return the steps of AdamW, one for the shares of all ranks together."""
    model = copy.deepcopy(given["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps, after = [], _weights(model)
    for shares in zip(*given["batches"]):
        before, gradients = after, _gradients(model, *map(torch.cat, zip(*shares)))
        for weight, gradient in zip(model.parameters(), gradients):
            weight.grad = gradient
        optimizer.step()
        after = _weights(model)
        steps.append(StepTaken(before, gradients, after))
    return steps


def _weights(model):
    return [p.detach().clone() for p in model.parameters()]


def _gradients(model, tokens, targets):
    """Those of the mean over all tokens."""
    loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    return list(torch.autograd.grad(loss, list(model.parameters())))


def cut(tensors: Sequence[Tensor], dims: Sequence[int], ranks: int) -> list[Tensor]:
    """Return what each rank holds, flat, if each tensor is cut along one of `dims`."""
    flat: list[list[Tensor]] = [[] for _ in range(ranks)]
    for tensor, dim in zip(tensors, dims):
        for parts, part in zip(flat, tensor.chunk(ranks, dim)):
            parts.append(part.flatten())
    return [torch.cat(parts) for parts in flat]


def counts(
    given: dict, before: Sequence[Tensor], number: int, found: Tensor, dims: list
) -> list | None:
    """Return how often the gradient of each micro-batch is in `found`, by rank.

    In the mean over all of them each counts 1. `found` is a step's, cut along `dims`;
    `before` are the weights then. None if something else is in it.
    """
    model, ranks = copy.deepcopy(given["model"]), len(given["batches"])
    for weight, right in zip(model.parameters(), before):
        weight.data = right
    parts = [
        torch.cat(cut(_gradients(model, *pair), dims, ranks))
        for share in (batches[number] for batches in given["batches"])
        for pair in zip(*(part.chunk(given["k"]) for part in share))
    ]
    matrix, vector = torch.stack(parts).double(), found.double()
    solved = torch.linalg.lstsq(matrix @ matrix.T, (matrix @ vector)[:, None]).solution
    if not (solved[:, 0] @ matrix - vector).norm() <= _REST * vector.norm():
        return None
    return (len(parts) * solved).view(ranks, -1).tolist()
