"""Sentences of exercise 2.3, a model of them, and its gradient over micro-batches."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import grads_of

VOCABULARY, IGNORED = 20, -100
# per micro-batch the lengths of its sentences; the first tokens of each are its
# question, which the model does not learn, so a short one has no target at all
_QUESTION = 2
CASES = (
    ((9, 8, 7, 9), (4, 3, 5), (9, 3)),
    ((12, 3), (5, 6, 4, 3, 7)),
    ((8, 8, 6), (2, 1), (7, 3, 4)),
)


def sentence_model():
    """Tokens i64[n, length] to f32[n, length, 20]: what each may be followed by."""
    with baseline.seeded():
        layers = [nn.Embedding(VOCABULARY, 16), nn.Linear(16, 16), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(16, VOCABULARY))


def batches_of(lengths):
    """Micro-batches of tokens and targets i64[n, longest], padded."""
    generator = torch.Generator().manual_seed(0)
    return [_padded(part, generator) for part in lengths]


def _padded(lengths, generator):
    shape = len(lengths), max(lengths)
    tokens = torch.zeros(shape, dtype=torch.long)
    targets = torch.full(shape, IGNORED)
    for row, length in enumerate(lengths):
        words = torch.randint(0, VOCABULARY, (length + 1,), generator=generator)
        tokens[row, :length] = words[:-1]
        targets[row, _QUESTION:length] = words[_QUESTION + 1 :]
    return tokens, targets


def targets_in(batch) -> int:
    """How many tokens of a micro-batch count."""
    return int((batch[1] != IGNORED).sum())


def gradient(data, weight=None, targets=None, *, rows=lambda f: f.flatten(0, 1)):
    """The gradient of the summed loss of each micro-batch i times `weight(i)`.

    Without `weight` that of the mean over all tokens. `targets(i)` replaces targets,
    `rows` makes f32[n × length, 20] of f32[n, length, 20].
    """
    total = sum(map(targets_in, data))
    model = sentence_model()
    for i, (tokens, real) in enumerate(data):
        aims = real if targets is None else targets(i)
        predicted = rows(model(tokens))
        losses = cross_entropy(predicted, aims.flatten(), reduction="none")
        factor = 1 / total if weight is None else weight(i)
        factor = factor.flatten() if torch.is_tensor(factor) else factor
        (losses * factor).sum().backward()
    return grads_of(model)
