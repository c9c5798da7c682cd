"""What goes wrong with a mean over tokens, and the hint for it."""

from functools import partial
from typing import NamedTuple

import torch

from course_lib.exercises.compare import gap, largest, mistaken
from course_lib.exercises.stages.stage02.sentences import IGNORED, gradient, targets_in

_SHARE = 3e-4  # of its largest number may a gradient be off, for a known mistake
_PADDING = (
    "Targets of -100 are counted, too. They have no loss, so they must not be in the"
    " number that you divide by."
)
_WIPED = "Only the last micro-batch counts: zero_grad in the loop wipes out the others."
# hints, and by what the summed loss of micro-batch i is multiplied: n are its counts,
# s those of all together, k micro-batches, the last of which has the number k - 1
_MISTAKES = (
    (
        "This is a mean of means: a token in a short micro-batch counts more. Take"
        " sums, and divide by the number of all targets.",
        lambda n, s, k, i: 1 / (k * n.targets),
    ),
    (
        "The means are added up with nothing to divide them. Take sums, and divide by"
        " the number of all targets.",
        lambda n, s, k, i: 1 / n.targets,
    ),
    (
        "Each mean is weighed by its number of sentences. What counts here are tokens:"
        " weigh by the number of targets.",
        lambda n, s, k, i: n.rows / s.rows / n.targets,
    ),
    (_PADDING, lambda n, s, k, i: n.places / s.places / n.targets),
    (_PADDING, lambda n, s, k, i: 1 / s.places),
    (_PADDING, lambda n, s, k, i: 1 / (k * n.places)),
    (
        "mean() of reduction='none' divides by all places, those of -100 as well. Take"
        " sum().",
        lambda n, s, k, i: n.targets / (n.places * s.targets),
    ),
    (
        "count_nonzero counts every -100 as well, and leaves out 0, which is a word."
        " Count targets that are not -100.",
        lambda n, s, k, i: 1 / s.nonzero,
    ),
    (
        "Word 0 may be a target, too. Count targets that are not -100, not those above"
        " 0.",
        lambda n, s, k, i: 1 / s.positive,
    ),
    (
        "Tokens that are not 0 are counted. But 0 is a word, and the first tokens of a"
        " sentence are no targets: count targets that are not -100.",
        lambda n, s, k, i: 1 / s.words,
    ),
    (
        "This is the gradient of a sum over tokens. Divide by the number of all"
        " targets.",
        lambda n, s, k, i: 1,
    ),
    (
        "Each mean is divided by the number of all targets, but it is a mean already:"
        " take sums, or multiply by the micro-batch's own targets first.",
        lambda n, s, k, i: 1 / (s.targets * n.targets),
    ),
    (
        "The number of targets is still growing while you divide by it. Count all of"
        " them before the loop.",
        lambda n, s, k, i: 1 / n.so_far,
    ),
    (
        "You divide by the number of sentences. Divide by the number of targets.",
        lambda n, s, k, i: 1 / s.rows,
    ),
    (_WIPED, lambda n, s, k, i: (i == k - 1) / s.targets),
    (_WIPED, lambda n, s, k, i: (i == k - 1) / n.targets),
    (_WIPED, lambda n, s, k, i: (i == k - 1) / (k * n.targets)),
    (
        "The sum is divided by the number of all targets and by k. Once is enough.",
        lambda n, s, k, i: 1 / (k * s.targets),
    ),
)


class _Counts(NamedTuple):
    """What there is in micro-batches; `so_far` are the targets up to this one."""

    targets: int
    rows: int
    places: int
    words: int
    nonzero: int
    positive: int
    so_far: int


def _counts(data):
    """The counts of each micro-batch, and those of all together."""
    every, so_far = [], 0
    for tokens, targets in data:
        found = targets_in((tokens, targets))
        so_far += found
        words = int((tokens != 0).sum())
        # nothing is divided by 0: a micro-batch without targets has no loss anyway
        nonzero, positive = (int(f.sum()) for f in (targets != 0, targets > 0))
        numbers = len(tokens), tokens.numel(), words, nonzero, positive
        every.append(_Counts(max(1, found), *numbers, max(1, so_far)))
    sums = _Counts(so_far, *(sum(column) for column in list(zip(*every))[1:]))
    return every, sums


def why(data, found):
    """The hint for a gradient that is not that of the mean over all tokens."""
    most = largest(found)
    if most != most:
        return (
            "A micro-batch without a target: its mean is 0 / 0. Add up its losses"
            " (reduction='sum') and divide by the number of all targets."
        )
    if most == 0:
        return "All gradients are 0. Is zero_grad called after backward?"
    every, sums = _counts(data)
    known = ((hint, {"weight": _each(w, every, sums)}) for hint, w in _MISTAKES)
    hint = mistaken(found, known, partial(gradient, data), close=_SHARE * most)
    return hint or _why_otherwise(found, data, sums)


def _each(weight, every, sums):
    """The weight of each micro-batch, as `gradient` takes it."""
    factors = [weight(n, sums, len(every), i) for i, n in enumerate(every)]
    return factors.__getitem__


def _why_otherwise(found, data, sums):
    """The hint for mistakes that are no factor of a micro-batch's summed loss."""
    per_sentence = partial(_per_sentence, data, sums.rows)
    if _is(found, gradient(data, per_sentence)):
        return (
            "Each sentence counts the same, a short one as much as a long one. Each"
            " token should."
        )
    if any(_is(found, _learned(data, n)) for n in (sums.places, sums.targets)):
        return (
            "Targets of -100 have been turned into words, and the model learns the"
            " padding. Leave them: cross_entropy ignores them."
        )
    if _is(found, gradient(data, targets=lambda i: _shifted(data[i][1]))):
        return (
            "The targets are shifted by one. Each stands beside the token that it"
            " follows already."
        )
    if _is(found, gradient(data, rows=_reshaped)):
        return (
            "reshape and view only cut anew, so logits get mixed up. Classes second:"
            " `logits.transpose(1, 2)`, or flatten logits and targets."
        )
    return (
        "Count the targets that are not -100 in all micro-batches, N. Each micro-batch"
        " adds the sum of its losses, divided by N."
    )


def _learned(data, number):
    """The gradient of a sum divided by `number` where -100 has become the word 0."""
    targets = [batch[1].clamp(min=0) for batch in data]
    return gradient(data, lambda i: 1 / number, targets.__getitem__)


def _shifted(targets):
    """Targets i64[n, length], each moved to the place before."""
    ignored = torch.full_like(targets[:, :1], IGNORED)
    return torch.cat([targets[:, 1:], ignored], 1)


def _reshaped(logits):
    """Rows f32[n × length, 20] of logits whose classes a reshape has put second."""
    count, length, classes = logits.shape
    return logits.reshape(count, classes, length).transpose(1, 2).flatten(0, 1)


def _is(found, expected):
    return gap(found, expected) < _SHARE * largest(found)


def _per_sentence(data, sentences, i):
    """The weight of each token, f32[n, length], if every sentence counts the same."""
    targets = data[i][1]
    counts = (targets != IGNORED).sum(1, keepdim=True).clamp(min=1)
    return (1 / (counts * sentences)).expand(targets.shape)
