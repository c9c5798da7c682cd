"""Many small trainings at once: their parameters stacked, each with a rate and a seed.

The losses of stacked models add up to one number, whose gradient is each model's own:
one backward pass, and one call of each operator, serve all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from course_lib.errors import UsageError

METRICS = ("train_loss", "train_error", "val_loss", "val_error")
# of the steps, from one measurement to the next; a loss is to be met closely
_GROWTH = {"error": 1.08, "loss": 1.03}
_ROWS = 1 << 14  # images that all models together look at in one call
_PATIENCE = 2.0  # times the steps of the best rate; slower ones are given up


@dataclass(frozen=True)
class Plan:
    """What is trained: batches, rates, seeds, and when it ends."""

    batch_size: int
    rates: tuple  # numbers, or functions from the number of a step (0 first) to one
    seeds: int
    steps: int  # at most
    target: tuple | None = None  # (metric, level): reached when at or below it
    optimizer: str = "SGD"  # or another of OPTIMIZERS


def _plain_way(grad, state, step):
    return grad


def _momentum(grad, state, step):
    return state[0].mul_(0.9).add_(grad)


def _adam(grad, state, step):
    mean, square = state
    mean.lerp_(grad, 1 - 0.9)
    square.lerp_(grad.square(), 1 - 0.999)
    scale = (square / (1 - 0.999**step)).sqrt() + 1e-8
    return mean / (1 - 0.9**step) / scale


# with PyTorch's usual numbers: the tensors that each keeps for a parameter, and which
# way it goes in step 1, 2, …; all of them go the further the higher the rate
OPTIMIZERS = {
    "SGD": (0, _plain_way),
    "momentum": (1, _momentum),
    "Adam": (2, _adam),
}


@dataclass(frozen=True)
class Runs:
    """What came of stacked trainings: R rates, S seeds each.

    `steps` i64[T] says after how many steps was measured; `curves` has f32[T, R, S] for
    each metric, or for that of the target alone, nan where a training had ended.
    `final` has f32[R, S] for each metric at the end of each training, `weights` its
    parameters then, f32[R, S, …]; `ended` i64[R, S] its number of steps; `reached`
    bool[R, S] whether that was at the target.
    """

    plan: Plan
    steps: torch.Tensor
    curves: dict
    final: dict
    weights: dict
    ended: torch.Tensor
    reached: torch.Tensor

    def __repr__(self):
        rates, seeds = self.ended.shape
        most = f"{int(self.ended.max()):,}"
        return (
            f"{rates} rates × {seeds} seeds, batch size {self.plan.batch_size}: up to"
            f" {most} steps, {int(self.reached.sum())} at the target"
        )


def train(make: Callable, data: Sequence, plan: Plan, *, show=None) -> Runs:
    """Train `make(seed)` for each rate and each seed of a plan, all at once.

    `data` is (train, validation), two pairs of images f32[n, …] and labels i64[n]. A
    step of the plan's optimizer follows the mean cross-entropy of a batch. All models
    of a seed start alike and read the same batches, in an order of that seed. A
    training ends at the target, when its loss is no number, or when the plan ends; with
    several rates, all end soon after the best one. `show(text, share)` is told how far
    it is.
    """
    models = _Models(make, data, plan)
    rows = []
    for step, batch in enumerate(batches(len(data[0][1]), plan), 1):
        models.step(step - 1, batch)
        if is_measured(step, plan):
            rows.append((step, models.measure(step)))
            if show:
                show(models.progress(step), step / plan.steps)
            if models.done(step):
                break
    return models.result(rows)


def batches(count: int, plan: Plan) -> Iterator[torch.Tensor]:
    """Yield indices i64[S, B] for each step of a plan, from `count` samples.

    Each epoch has a new order for each seed; a short last batch is dropped.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in range(plan.seeds)]
    left = plan.steps
    while left > 0:
        order = torch.stack([torch.randperm(count, generator=g) for g in generators])
        whole = order[:, : count // plan.batch_size * plan.batch_size]
        parts = whole.split(plan.batch_size, dim=1)[:left]
        yield from parts
        left -= len(parts)


def is_measured(step: int, plan: Plan) -> bool:
    """Return whether it is 8 % (loss: 3 %) beyond the last time, or the end."""
    metric, _ = plan.target or ("any_error", 0)
    growth = _GROWTH[metric.partition("_")[2]]
    before = math.log(step - 1, growth) if step > 1 else -1
    return int(math.log(step, growth)) > int(before) or step == plan.steps


class _Models:
    """The stacked models that still train, and what became of the others."""

    def __init__(self, make, data, plan):
        self.plan, (self.train, self.val) = plan, data
        single = [make(seed) for seed in range(plan.seeds)]
        refuse(single[0])
        self.device = self.train[0].device
        self.model = single[0].to(self.device)
        count = len(plan.rates) * plan.seeds
        every = [single[i % plan.seeds].to(self.device) for i in range(count)]
        stack, _ = stack_module_state(every)
        self.params = {name: p.detach() for name, p in stack.items()}
        self.trained = [name for name, p in stack.items() if p.requires_grad]
        kept, self.way = OPTIMIZERS[plan.optimizer]
        self.state = {
            name: [torch.zeros_like(self.params[name]) for _ in range(kept)]
            for name in self.trained
        }
        # what lies in a core's cache is there sooner
        self.group = max(1, _ROWS // plan.batch_size)
        self.last = {name: p.detach().clone() for name, p in self.params.items()}
        self.alive = torch.arange(count)  # numbers of the models in the stack
        self.metrics = (plan.target[0],) if plan.target else METRICS
        self.ended = torch.zeros(count, dtype=torch.int64)
        self.reached, self.lost = torch.zeros(2, count, dtype=torch.bool)

    def _predict(self, params, images):
        return functional_call(self.model, params, (images,))

    def _loss(self, params, images, labels):
        return cross_entropy(self._predict(params, images), labels)

    def step(self, number, indices):
        """Do one step of the optimizer for all."""
        rates = self._rates(number)
        for start in range(0, len(self.alive), self.group):
            part = slice(start, start + self.group)
            batch, dims = self.train, None  # all read all, in any order
            if self.plan.batch_size < len(self.train[1]):
                own = indices[self.alive[part] % self.plan.seeds].to(self.device)
                batch, dims = [tensor[own] for tensor in self.train], 0
            params = {name: p[part] for name, p in self.params.items()}
            trained = [params[name].requires_grad_() for name in self.trained]
            losses = vmap(self._loss, in_dims=(0, dims, dims))(params, *batch)
            # what a model does not use has no slope
            grads = torch.autograd.grad(losses.sum(), trained, materialize_grads=True)
            self.lost[self.alive[part]] = ~losses.detach().isfinite().cpu()
            for name, p, grad in zip(self.trained, trained, grads):
                state = [kept[part] for kept in self.state[name]]
                way = self.way(grad, state, number + 1)
                rate = rates[part].view(-1, *[1] * (p.dim() - 1))
                p.detach().sub_(rate * way)  # the memory of all models' parameters

    def _rates(self, number):
        now = [rate(number) if callable(rate) else rate for rate in self.plan.rates]
        rates = torch.tensor(now)[self.alive // self.plan.seeds]
        return rates.to(self.device)

    def measure(self, step):
        """Return f32[metrics, R·S], nan for who has ended; end who is at the target."""
        row = torch.full((len(self.metrics), len(self.ended)), math.nan)
        for i, metric in enumerate(self.metrics):
            row[i, self.alive] = self._value(metric, self.params)
        self.ended[self.alive] = step
        good = torch.zeros(len(self.alive), dtype=torch.bool)
        if self.plan.target:
            good = row[0, self.alive] <= self.plan.target[1]
        bad = self.lost[self.alive]
        self._drop(good & ~bad, bad)
        return row

    @torch.no_grad()
    def _value(self, metric, params):
        """f32[models]: one metric of models."""
        part, kind = metric.split("_")
        images, labels = self.train if part == "train" else self.val

        def value(params):
            outputs = self._predict(params, images)
            if kind == "loss":
                return cross_entropy(outputs, labels)
            return (outputs.argmax(1) != labels).float().mean()

        chunk = max(1, _ROWS // len(labels))
        return vmap(value, chunk_size=chunk)(params).float().cpu()

    def _drop(self, good, bad):
        """Let those end that have reached the target or whose loss is no number."""
        gone = good | bad
        if not gone.any():
            return
        self.reached[self.alive[good]] = True
        self._keep()
        self.alive = self.alive[~gone]
        stay = (~gone).to(self.device)
        self.params = {name: p[stay] for name, p in self.params.items()}
        self.state = {
            name: [kept[stay] for kept in own] for name, own in self.state.items()
        }

    def _keep(self):
        for name, p in self.params.items():
            self.last[name][self.alive] = p

    def done(self, step):
        """Return True if nobody trains, or the best rate is well ahead of others."""
        if not len(self.alive):
            return True
        shape = len(self.plan.rates), self.plan.seeds
        whole = self.reached.view(shape).all(1)
        best = self.ended.view(shape)[whole].float().mean(1)
        return bool(whole.any()) and step > _PATIENCE * best.min().item()

    def progress(self, step):
        there = int(self.reached.sum())
        goal = f", {there} of {len(self.reached)} at the target" if there else ""
        return f"batch size {self.plan.batch_size}: step {step:,}{goal}"

    def result(self, rows):
        self._keep()
        shape = len(self.plan.rates), self.plan.seeds
        table = torch.stack([row for _, row in rows]).view(len(rows), -1, *shape)
        return Runs(
            plan=replace(self.plan, rates=tuple(map(_plain, self.plan.rates))),
            steps=torch.tensor([step for step, _ in rows]),
            curves={name: table[:, i] for i, name in enumerate(self.metrics)},
            final={m: self._value(m, self.last).view(shape) for m in METRICS},
            weights={n: p.unflatten(0, shape).cpu() for n, p in self.last.items()},
            ended=self.ended.view(shape),
            reached=self.reached.view(shape),
        )


def _plain(rate):
    """Return a rate as it can be kept: a function by its name."""
    return getattr(rate, "__name__", "schedule") if callable(rate) else float(rate)


def refuse(model: torch.nn.Module) -> None:
    """Raise `UsageError` for a model that cannot be stacked."""
    normed = any(isinstance(module, _BatchNorm) for module in model.modules())
    if normed or list(model.buffers()):
        raise UsageError(
            f"cannot train many {type(model).__name__} at once: it has buffers or"
            " BatchNorm. Use layers without running statistics, such as GroupNorm."
        )
    if any("Dropout" in type(module).__name__ for module in model.modules()):
        raise UsageError(
            f"cannot train many {type(model).__name__} at once: Dropout draws random"
            " numbers, so a run would not repeat. Leave it out."
        )
