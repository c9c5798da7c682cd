"""What the runs of exercise 4.10 give when they are well: one process, plain loops."""

from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.e4_10 import clinic

_MARGIN = 1e-3  # of two logits


def small(seed: int = 0) -> nn.Module:
    """Return the network of runs B, C and D, from i64 seeds as they make it."""
    with baseline.seeded(seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def clipped(batches, longest: float) -> dict:
    """Return the weights after run C in one process; `inf` clips nothing."""
    model = small()
    optimizer = baseline.optimizer(model)
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), longest)
        optimizer.step()
    return model.state_dict()


def masked(start: dict, batches, masks: Sequence[Sequence[torch.Tensor]]) -> dict:
    """Return the weights after run B in one process, with the masks of each rank.

    `masks[rank][step]` has the shape of the rank's images in that step.
    """
    model = small()
    model.load_state_dict(start)
    optimizer, ranks = baseline.optimizer(model), len(masks)
    for step, (images, labels) in enumerate(batches):
        optimizer.zero_grad()
        for rank in range(ranks):
            own = slice(rank, None, ranks)
            predicted = model(images[own] * masks[rank][step])
            (cross_entropy(predicted, labels[own]) / ranks).backward()
        optimizer.step()
    return model.state_dict()


def losses(batches, ranks: int) -> Iterator[tuple[list[float], dict]]:
    """Yield the loss of each rank's share and the weights after each step of run D."""
    model = small()
    optimizer = baseline.optimizer(model)
    for images, labels in batches:
        optimizer.zero_grad()
        shares = [slice(rank, None, ranks) for rank in range(ranks)]
        each = [cross_entropy(model(images[own]), labels[own]) for own in shares]
        (sum(each) / ranks).backward()
        optimizer.step()
        state = {name: part.clone() for name, part in model.state_dict().items()}
        yield [loss.item() for loss in each], state


class Script:
    """Run E in one process, by other constants than its text has."""

    def __init__(self, constants: dict):
        (images, labels), test = (part.tensors for part in clinic.load_data())
        self.images = images[: constants["TRAIN"]]
        self.labels = labels[: constants["TRAIN"]]
        self.test = [part[: constants["TEST"]] for part in test]
        with baseline.seeded(clinic.SEED):
            self.model = clinic.make_model()
        self.start = {n: p.clone() for n, p in self.model.state_dict().items()}
        self._train(constants)

    def _train(self, constants):
        rate, momentum = clinic.RATE, clinic.MOMENTUM
        optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=momentum)
        data, batch = (self.images, self.labels), constants["BATCH"]
        for images, labels in baseline.batches(
            data, batch=batch, epochs=constants["EPOCHS"]
        ):
            optimizer.zero_grad()
            clinic.loss_of(self.model(images), labels).backward()
            optimizer.step()

    @property
    def weights(self) -> dict:
        """The weights at the end."""
        return self.model.state_dict()

    @torch.no_grad()
    def right(self) -> int:
        """Return how many test samples are right at the end."""
        images, labels = self.test
        return (self.model(images).argmax(1) == labels).sum().item()

    @torch.no_grad()
    def unsure(self) -> int:
        """Return how many test samples may be of two classes: rounding decides."""
        best = self.model(self.test[0]).topk(2).values
        return (best[:, 0] - best[:, 1] < _MARGIN).sum().item()

    def gradients(self, shares: Sequence[Sequence[int]]) -> list[dict]:
        """Return for each rank's samples its part of the first step's gradient.

        The parts are so large that their mean over ranks is the right gradient.
        """
        total = sum((self.labels[share] >= 0).sum().item() for share in shares)
        return [self._part(share, len(shares) / max(1, total)) for share in shares]

    def _part(self, share, factor):
        model = clinic.make_model()
        model.load_state_dict(self.start)
        found = model(self.images[share])
        loss = cross_entropy(found, self.labels[share], reduction="sum")
        (loss * factor).backward()
        return {name: p.grad for name, p in model.named_parameters()}


def mean(states: Sequence[dict]) -> dict:
    """Return the mean of several state dicts."""
    return {n: torch.stack([one[n] for one in states]).mean(0) for n in states[0]}
