"""Exercise 4.7: the three numbers of an evaluation, right and by known mistakes."""

import math

import torch
from torch.nn.functional import cross_entropy

_CLASSES = 10


def measured(logits: torch.Tensor, labels: torch.Tensor) -> dict:
    """Return loss, accuracy and macro recall of f32[n, 10] against i64[n], n > 0."""
    right = (logits.argmax(1) == labels).double()
    shares = [right[labels == one].mean() for one in labels.unique()]
    return {
        "loss": cross_entropy(logits.double(), labels).item(),
        "accuracy": right.mean().item(),
        "recall": torch.stack(shares).mean().item(),
    }


def otherwise(logits: torch.Tensor, labels: torch.Tensor, ranks: int) -> list:
    """Return what other ways give, as pairs of a way and its numbers by their names.

    Ways that are right here, too, are among them.
    """
    every = torch.arange(len(labels))
    dealt = every.repeat(ranks)[: math.ceil(len(labels) / ranks) * ranks]
    right = measured(logits, labels)
    padded, strided, blocks = (
        _of_ranks(logits, labels, [part for part in parts if len(part)])
        for parts in (
            [dealt[rank::ranks] for rank in range(ranks)],
            [every[rank::ranks] for rank in range(ranks)],
            every.tensor_split(ranks),
        )
    )
    return [
        ("percent", {name: 100 * right[name] for name in ("accuracy", "recall")}),
        ("sum", {"loss": right["loss"] * len(labels)}),
        *((way, {"recall": number}) for way, number in _recalls(logits, labels)),
        ("twice", measured(logits[dealt], labels[dealt])),
        *(("means", mean) for mean, _ in (strided, blocks, padded)),
        *(("summed means", total) for _, total in (strided, blocks, padded)),
    ]


def _of_ranks(logits, labels, parts):
    """The mean of what ranks measure by themselves, and the sum of it."""
    own = [measured(logits[part], labels[part]) for part in parts]
    total = {name: sum(one[name] for one in own) for name in own[0]}
    return {name: number / len(parts) for name, number in total.items()}, total


def _recalls(logits, labels):
    """Other things than macro recall, by their names."""
    predicted = logits.argmax(1)
    right = predicted == labels
    found = right.double() @ torch.eye(_CLASSES, dtype=torch.double)[labels]
    there = labels.bincount(minlength=_CLASSES)
    told = predicted.bincount(minlength=_CLASSES)
    shares, united = found / there.clamp(min=1), ((there > 0) | (told > 0)).sum()
    yield "micro", right.double().mean().item()
    yield "all digits", (shares.sum() / _CLASSES).item()
    yield "predicted digits", (shares.sum() / united).item()
    yield "precision", (found / told.clamp(min=1))[told > 0].mean().item()
    yield "precision", (found / told.clamp(min=1))[there > 0].mean().item()
