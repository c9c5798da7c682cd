"""Exercise 2.6: what is trained, so that some steps are clipped and one overflows."""

import copy
import itertools
import math
import random
from collections.abc import Iterator
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.e2_2.judge import gradient
from course_lib.exercises.e2_6.reference import flat, trained

BATCH = 48
# of the images of a batch; dark ones have short gradients, which are not clipped
_CONTRASTS = (0.3, 2.0, 1.2, 0.5, 1.6)
_LARGEST = torch.finfo(torch.float16).max
_SCALER = {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3}
_HIGH = 2.0**30  # a scale at which every batch overflows


def trainings(seed: int) -> Iterator[dict]:
    """Yield what an answer is given: by SGD, with momentum, by Adam.

    In the second one image has far too large pixels. In the third the first scale is
    too large, as it is in many trainings.
    """
    numbers = random.Random(seed)
    more = numbers.choice((2, 4, 6, 12)) if seed else 3
    # not the number of the last part: who counts both by one name would return that
    broken = numbers.choice([n for n in (1, 2, 3) if n != more - 1]) if seed else 1
    sgd = partial(torch.optim.SGD, lr=0.2)
    moving = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    adam = partial(torch.optim.Adam, lr=0.003, eps=1e-4)
    for parts, optimizer, skipped in (
        (8, sgd, None),
        (more, moving, broken),
        (1, adam, 0),
    ):
        given = {"model": network(seed), "optimizer": optimizer, "parts": parts}
        given["batches"] = _batches(numbers, seed)
        low = _fitting_scale(given)
        given["scaler"] = _SCALER | {"init_scale": low}
        given["max_norm"] = _between(given, skipped)
        if skipped == 0:
            given["scaler"] |= {"init_scale": _HIGH, "backoff_factor": low / _HIGH}
        elif skipped:
            _break(given, skipped)
        yield given


def network(seed: int) -> nn.Sequential:
    """Return a network whose gradients are as long as those of its neighbours."""
    with baseline.seeded(seed):
        layers = []
        for channels in [1] + [8] * 3:
            convolution = nn.Conv2d(channels, 8, 3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            layers += [convolution, nn.ReLU()]
        last = nn.Linear(32, 10)
        nn.init.xavier_normal_(last.weight)
        return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), last)


def _batches(numbers, seed):
    first, count = 200 * (seed % 4), len(_CONTRASTS) * BATCH
    images, labels = baseline.samples(first + count)
    dark, *rest = _CONTRASTS
    contrasts = [dark, *(numbers.sample(rest, len(rest)) if seed else rest)]
    pairs = zip(images[first:].split(BATCH), labels[first:].split(BATCH), contrasts)
    return [(x * contrast, y) for x, y, contrast in pairs]


def _fitting_scale(given):
    """A scale at which no micro-batch overflows, whatever its loss is divided by."""
    model, parts = given["model"], given["parts"]
    pairs = [zip(*(part.chunk(parts) for part in b)) for b in given["batches"]]
    losses = [cross_entropy(model(x), y) for x, y in itertools.chain(*pairs)]
    top = max(flat(gradient(model, loss)).abs().max().item() for loss in losses)
    return 2.0 ** math.floor(math.log2(_LARGEST / 16 / top))


def _between(given, skipped):
    """A norm that is far from the shortest gradient and from the longest one."""
    # a batch whose step is left out is as good as not there
    batches = [b for number, b in enumerate(given["batches"]) if number != skipped]
    most = math.inf
    for _ in range(5):
        tried = trained(given | {"batches": batches, "max_norm": most})
        norms = [batch.norm for batch in tried.batches]
        if 1.25 * min(norms) < most < max(norms) / 1.4:
            break
        most = float(f"{math.sqrt(min(norms) * max(norms)):.2g}")
    return most


def _break(given, place):
    """Give one image such pixels that its gradients overflow, but not its loss."""
    model = copy.deepcopy(given["model"])
    before = trained(given | {"batches": given["batches"][:place]})
    model.load_state_dict(before.weights)
    images, labels = given["batches"][place]
    losses = cross_entropy(model(1e3 * images), labels, reduction="none")
    # told wrong with large pixels, so that its gradient stays; more parts come after it
    worst = losses[: BATCH // 2].argmax()
    for power in range(6, 14):
        images[worst] *= 2.0**power / images[worst].max()
        loss = cross_entropy(model(images[worst, None]), labels[worst, None]) / BATCH
        if before.scale * flat(gradient(model, loss)).abs().max() > 8 * _LARGEST:
            return
