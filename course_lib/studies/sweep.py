"""Trainings over rates, seeds and batch sizes, with a bar; what was done is kept."""

from __future__ import annotations

import contextlib
import contextvars
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from course_lib.display import progress_line
from course_lib.errors import LaunchInterrupted, UsageError
from course_lib.launching import launcher, spec
from course_lib.studies import cache, stacked
from course_lib.studies.stacked import METRICS, OPTIMIZERS, Plan, Runs
from course_lib.studies.study import Study
from course_lib.system import host


def sweep(
    make: Callable,
    train,
    validation,
    *,
    batch_size: int,
    rates: Sequence,
    seeds: int = 3,
    steps: int = 10_000,
    target: tuple | None = None,
    optimizer: str = "SGD",
) -> Runs:
    """Train `make(seed)` for each rate and seed 0 … `seeds` - 1, all at once.

    `train` and `validation` are TensorDatasets of images and labels. A step is one of
    `optimizer`, "SGD", "momentum" (SGD with 0.9) or "Adam", on the mean cross-entropy
    of a batch; a rate is a number, or a function from the number of the step (0
    first). A training ends after `steps`, or at the target:
    `("val_error", 0.05)`, or another of train_loss, train_error, val_loss. With several
    rates all end soon after the best one has reached it with every seed. Results are
    kept on disk and found again while nothing that they depend on changes.

    Errors: `UsageError` for what cannot be trained so, before anything runs;
    `LaunchInterrupted`.
    """
    plan = Plan(batch_size, tuple(rates), seeds, steps, target, optimizer)
    try:
        with progress_line() as show:
            return _run(make, (train, validation), plan, show=show)
    except KeyboardInterrupt:
        raise LaunchInterrupted(
            f"interrupted: the trainings with batches of {batch_size} begin anew when"
            " you run this cell again."
        ) from None


def _run(make, sets, plan, *, show=None):
    data = tuple(map(_tensors, sets))
    _refuse(plan, len(data[0][1]))

    def compute():
        # as plain values and tensors, which is what can be kept
        runs = stacked.train(make, data, plan, show=show)
        return {**vars(runs), "plan": asdict(runs.plan)}

    with _settled():
        value = cache.fetch(cache.digest(_content(make, data, plan)), compute)
    return Runs(**value | {"plan": Plan(**value["plan"])})


def _tensors(part):
    if not hasattr(part, "tensors"):
        raise UsageError(
            f"cannot train on a {type(part).__name__}: expected TensorDatasets, as from"
            " TensorDataset(images, labels)."
        )
    return part.tensors


@contextlib.contextmanager
def _settled():
    """One thread, and the learner's random state as it was.

    Small operators gain nothing from more threads, and where others compute on the same
    cores, threads that wait for each other cost ten times the time.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def _content(make, data, plan):
    """All that the result depends on: engine, plan, data, and what each model is."""
    yield Path(stacked.__file__).read_text(encoding="utf-8")
    yield torch.__version__
    rates = [
        [rate(i) for i in range(plan.steps)] if callable(rate) else rate
        for rate in plan.rates
    ]
    yield replace(plan, rates=rates)
    yield from chain.from_iterable(data)
    for seed in range(plan.seeds):
        model = make(seed)
        stacked.refuse(model)
        yield from _nature(model, data)


def _nature(model, data):
    """Yield what a model is: two of the same parameters may learn otherwise."""
    (images, labels), (tests, _) = data
    yield str(images.device)
    model.to(images.device)
    outputs = model(images)
    with torch.no_grad():
        again = model(images)
        yield model(tests)
    if not torch.equal(outputs, again):
        raise UsageError(
            f"cannot train many {type(model).__name__} at once: its outputs differ from"
            " call to call, as with dropout, so a run would not repeat."
        )
    trained = [p for p in model.parameters() if p.requires_grad]
    loss = cross_entropy(outputs, labels)
    yield from model.parameters()
    yield outputs
    yield from torch.autograd.grad(loss, trained, allow_unused=True)


def _refuse(plan, count):
    whole = hasattr(plan.batch_size, "__index__")
    if not (whole and 0 < plan.batch_size <= count):
        raise UsageError(
            f"cannot take batches of {plan.batch_size!r} from {count:,} samples: choose"
            f" 1 to {count:,}."
        )
    if not plan.rates or plan.seeds < 1 or plan.steps < 1:
        raise UsageError(
            f"nothing to train: found {len(plan.rates)} rates, {plan.seeds} seeds,"
            f" {plan.steps} steps; expected at least one of each."
        )
    if plan.target and (len(plan.target) != 2 or plan.target[0] not in METRICS):
        raise UsageError(
            f"cannot reach {plan.target!r}: give a level with one of"
            f" {', '.join(METRICS)}, as in ('val_error', 0.05)."
        )
    if plan.optimizer not in OPTIMIZERS:
        raise UsageError(
            f"cannot train by {plan.optimizer!r}: choose one of"
            f" {', '.join(OPTIMIZERS)}."
        )


def steps_to_target(
    make: Callable,
    train,
    validation,
    *,
    batch_sizes: Sequence[int],
    rates: Sequence[float],
    seeds: int = 3,
    target: tuple = ("val_error", 0.05),
    steps: int = 20_000,
    optimizer: str = "SGD",
) -> Study:
    """Do a `sweep` for each batch size: how many steps does the target take?

    The batch sizes are shared out to as many ranks as there are cores. If it is
    interrupted, what is done is kept for the next call.
    """
    batch_sizes, rates = list(batch_sizes), tuple(rates)
    options = seeds, steps, tuple(target), optimizer
    plans = [Plan(size, rates, *options) for size in batch_sizes]
    if not plans:
        raise UsageError("nothing to train: found no batch sizes, expected at least 1.")
    launcher.refuse_inside_rank("steps_to_target()")
    with _settled():
        stacked.refuse(make(0))
    for plan in plans:
        _refuse(plan, len(_tensors(train)[1]))
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        asked = spec.check(
            _share,
            args=((make, (train, validation), plans), folder),
            world_size=max(1, min(len(plans), host.usable_cores())),
        )
        try:
            with _counting(folder, len(plans)):
                results = launcher.run_request(asked, quiet=True)
        except LaunchInterrupted:
            done = len(os.listdir(folder))
            raise LaunchInterrupted(
                f"interrupted: {done} of {len(plans)} batch sizes are done and kept."
                " Run this cell again to go on."
            ) from None
    tables = {size: table for part in results for size, table in part.items()}
    return Study(tuple(target), rates, {n: tables[n] for n in batch_sizes})


def _share(rank, world_size, /, *given):
    """Return the tables of every `world_size`-th plan; each one done leaves a file."""
    (make, sets, plans), folder = given
    tables = {}
    for plan in plans[rank::world_size]:
        tables[plan.batch_size] = _table(_run(make, sets, plan))
        Path(folder, f"{plan.batch_size}").touch()
    return tables


@contextlib.contextmanager
def _counting(folder, count):
    """Show a bar in a block that grows with the files in `folder`."""
    over = threading.Event()

    def look():
        while not over.wait(0.2):
            done = len(os.listdir(folder))
            show(f"{done} of {count} batch sizes done", done / count)

    with progress_line("trainings start …") as show:
        # in the context of the cell, so that the bar appears below it
        watcher = threading.Thread(target=contextvars.copy_context().run, args=(look,))
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _table(runs):
    """Return steps per rate and seed, None where the target was not reached."""
    pairs = zip(runs.ended.tolist(), runs.reached.tolist())
    return [[n if good else None for n, good in zip(*pair)] for pair in pairs]
