"""Batch size and generalization: the full studies of lessons 06 and 06b, their cost."""

import ast
import contextlib
import os
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

from benchmarks import report

ROUNDS = 3
ROOT = Path(__file__).parent.parent
LESSON = ROOT / "notebooks" / "06b_larger_batches.ipynb"
STUDIES = ROOT / "notebooks" / "studies"
SIZES = tuple(2**k for k in range(1, 11))
RATES = tuple(2 ** (k / 2) for k in range(-10, 3))
# momentum of 0.9 goes ten times as far, Adam by its rate whatever the gradient's length
OTHERS = {
    "momentum": tuple(2 ** (k / 2) for k in range(-15, 2)),
    "Adam": tuple(2 ** (k / 2) for k in range(-18, -5)),
}
SEEDS = 12
WARM_UP = {"seeds": 60, "steps": 200}
# of the lesson, by id: what the studies need of it
CELLS = ("setup", "data", "warming", "schedules", "steep")
LEVELS = (0.1, 0.03, 0.01)  # of the training loss
# after which every seed of each setting has met the last level
STEPS = {1024: (3600, 3300, 900), 256: (1300, 1250, 400)}
_INTRODUCTION = """# Batch size and generalization

Lessons 06 and 06b show these studies beside the smaller ones that they run. The study
of steps to the target by plain SGD has {:,} trainings: {} batch sizes, {} rates, {}
seeds; beside it lie those by momentum and by Adam. Below the first is run
by stacked models, as `cl.steps_to_target` does, and by a plain loop of `nn.Module` and
`torch.optim.SGD`, one training after the other, for as many steps.
One thread for both; of the plain loop one seed is timed and counted {} times. Rounds:
{}; median (smallest to largest).
"""


def run(rounds: int | None = None) -> str:
    """Run the studies, time both ways; a report in Markdown comes back."""
    from course_lib.studies.study import rows_of

    rounds = rounds or ROUNDS
    lesson = cells(*CELLS)
    with _nothing_kept():
        study, seconds = _timed(steps_to_target, lesson)
        others = {name: steps_to_target(lesson, name) for name in OTHERS}
        gap, more = _timed(generalization, lesson)
    count = len(SIZES) * len(RATES) * SEEDS
    numbers = count, len(SIZES), len(RATES), SEEDS, SEEDS, rounds
    spent = (
        f"On all cores `cl.steps_to_target` took {seconds:.0f} s for this study. Those"
        f" of generalization took {more:.0f} s on one.\n"
    )
    parts = [
        _INTRODUCTION.format(*numbers),
        report.table(_HEAD, both_ways(lesson, rounds)),
        spent,
        report.conditions(),
    ]
    told = report.Report("\n".join(parts))
    told.files = {
        STUDIES / "steps_to_target.json": study.dumps(),
        **{
            STUDIES / f"steps_{name.lower()}.json": other.dumps()
            for name, other in others.items()
        },
        STUDIES / "generalization.json": rows_of(gap),
    }
    return told


def cells(*names: str) -> dict:
    """What these cells of the lesson define, so that both compute the same.

    What they run or draw beside that is left out.
    """
    import nbformat

    notebook = nbformat.read(LESSON, as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    space = {"__name__": "__main__"}  # so that ranks get its functions by value
    for name in names:
        cell = ast.parse(source[name])
        cell.body = [part for part in cell.body if _defines(part)]
        exec(compile(cell, name, "exec"), space)
    return space


def _defines(part):
    """True for an import, a function, and a value that gets a name."""
    if isinstance(part, ast.Assign):
        return not isinstance(part.targets[0], ast.Subscript)
    return isinstance(part, ast.Import | ast.ImportFrom | ast.FunctionDef)


def steps_to_target(lesson: dict, optimizer: str = "SGD"):
    """The study of all batch sizes by an optimizer, with its date and machine."""
    import course_lib as cl

    report.say(f"batch_size: steps to the target by {optimizer}")
    sets = lesson["train_set"], lesson["test_set"]
    options = {"batch_sizes": SIZES, "rates": OTHERS.get(optimizer, RATES)}
    options |= {"seeds": SEEDS, "optimizer": optimizer}
    study = cl.steps_to_target(lesson["make"], *sets, **options)
    return replace(study, where=_where())


def generalization(lesson: dict) -> dict:
    """Errors at equal training loss, and with wrong labels; losses after a warm-up."""
    import torch

    train = lesson["train_set"].tensors
    few = tuple(part[:256] for part in train)
    generator = torch.Generator().manual_seed(0)
    images, labels = train
    wrong = torch.rand(len(labels), generator=generator) < 0.2
    chance = torch.randint(10, labels.shape, generator=generator)
    noisy = images, torch.where(wrong, chance, labels)
    return {
        "where": _where(),
        "1024 digits": _equal_loss(lesson, train),
        "256 digits": _equal_loss(lesson, few),
        "wrong labels": _wrong_labels(lesson, noisy),
        "warm-up": _warm_up(lesson),
    }


def _settings(lesson, count):
    whole = f"all {count:,}"
    return {
        "batch 8, rate 0.25": (8, 0.25),
        f"{whole}, rate 0.25": (count, 0.25),
        f"{whole}, warm-up to 1": (count, lesson["warming"]),
    }


def _equal_loss(lesson, data):
    """Validation errors of each seed where it meets a level, between two looks."""
    found, count = {}, len(data[1])
    for (name, setting), steps in zip(_settings(lesson, count).items(), STEPS[count]):
        curves = _sweep(lesson, data, setting, seeds=24, steps=steps).curves
        losses, errors = (curves[key][:, 0] for key in ("train_loss", "val_error"))
        assert (losses <= LEVELS[-1]).any(0).all(), name
        levels = {f"{n}": at_loss(n, losses, 100 * errors) for n in LEVELS}
        found[name] = {level: _rounded(row) for level, row in levels.items()}
    return found


def at_loss(level, losses, errors):
    """The error f32[seeds] where a curve f32[looks, seeds] meets a loss.

    Between two looks at the curve lies a straight line.
    """
    first = (losses <= level).int().argmax(0, keepdim=True)
    above, below = (losses.gather(0, first - i)[0] for i in (1, 0))
    before, after = (errors.gather(0, first - i)[0] for i in (1, 0))
    return before + (above - level) / (above - below) * (after - before)


def _warm_up(lesson):
    """Training losses after 200 steps from the steep start, by schedule."""
    import course_lib as cl

    report.say("batch_size: warm-up")
    sets, schedules = (lesson["train_set"], lesson["test_set"]), lesson["schedules"]
    options = {"batch_size": 512, "rates": schedules, **WARM_UP}
    losses = cl.sweep(lesson["steep"], *sets, **options).final["train_loss"]
    return {rate.__name__: _rounded(row) for rate, row in zip(schedules, losses)}


def _wrong_labels(lesson, data):
    """Curves of the settings; the small batch may go on, as its steps are cheap."""
    found = {}
    for name, setting in _settings(lesson, len(data[1])).items():
        steps = 16_000 if setting[0] == 8 else 2560
        runs = _sweep(lesson, data, setting, seeds=12, steps=steps)
        error, loss = runs.curves["val_error"][:, 0], runs.curves["train_loss"][:, 0]
        found[name] = {
            "steps": runs.steps.tolist(),
            "val_error": [_rounded(100 * row) for row in error],
            "train_loss": [_rounded(row) for row in loss],
        }
    return found


def _sweep(lesson, data, setting, **options):
    import torch

    import course_lib as cl

    size, rate = setting
    name = getattr(rate, "__name__", rate)
    report.say(f"batch_size: {size} at {name}")
    train = torch.utils.data.TensorDataset(*data)
    sets = train, lesson["test_set"]
    return cl.sweep(lesson["make"], *sets, batch_size=size, rates=[rate], **options)


def _rounded(tensor):
    return [round(value, 4) for value in tensor.tolist()]


_HEAD = ["batch size", "one after the other", "stacked", "times faster"]


def both_ways(lesson: dict, rounds: int) -> list[list[str]]:
    """A row for each batch size, and one for all: seconds in both ways, their ratio."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = {size: ([], []) for size in SIZES}
    for turn in range(rounds):
        for size, (plain, stacked) in times.items():
            note = f"batch_size: both ways, batch size {size}, round {turn + 1}"
            report.say(note)
            found = _race(lesson, size)
            plain.append(found[0])
            stacked.append(found[1])
    torch.set_num_threads(threads)
    rows = [_row(f"{size:,}", *own) for size, own in times.items()]
    whole = (map(sum, zip(*(own[i] for own in times.values()))) for i in (0, 1))
    return [*rows, _row("all", *map(list, whole))]


def _row(name, plain, stacked):
    spans = [
        f"{statistics.median(own):.1f} s ({min(own):.1f} to {max(own):.1f})"
        for own in (plain, stacked)
    ]
    ratio = statistics.median(plain) / statistics.median(stacked)
    return [name, *spans, f"{ratio:.1f} ×"]


def _race(lesson, size):
    """Seconds of the plain loop and of the stacked models for one batch size."""
    from course_lib.studies import stacked

    make = lesson["make"]
    sets = [lesson[name].tensors for name in ("train_set", "test_set")]
    plan = stacked.Plan(size, RATES, SEEDS, 20_000, ("val_error", 0.05))
    runs, fast = _timed(stacked.train, make, sets, plan)
    ended = runs.ended[:, 0].tolist()
    _, slow = _timed(one_by_one, make, sets, plan, ended=ended)
    return SEEDS * slow, fast


def one_by_one(make, sets, plan, *, ended: list[int]) -> list[float]:
    """The first seed of each rate by a plain loop, for so many steps: its last error.

    It is measured at the same steps as the stacked models are.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from course_lib.studies import stacked

    (images, labels), (tests, answers) = sets
    found = []
    for rate, steps in zip(plan.rates, ended):
        model = make(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        order = stacked.batches(len(labels), replace(plan, seeds=1, steps=steps))
        for step, (batch,) in enumerate(order, 1):
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            if stacked.is_measured(step, plan):
                with torch.no_grad():
                    error = (model(tests).argmax(1) != answers).float().mean().item()
        found.append(error)
    return found


def _timed(function, *args, **options):
    """What a call gives, and the seconds that it took."""
    start = time.perf_counter()
    value = function(*args, **options)
    return value, time.perf_counter() - start


@contextlib.contextmanager
def _nothing_kept():
    """No result of an earlier run is found in a block."""
    before = os.environ.get("COURSE_LIB_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COURSE_LIB_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["COURSE_LIB_CACHE"]
            if before is not None:
                os.environ["COURSE_LIB_CACHE"] = before


def _where():
    """When, and on what."""
    cores = f"{os.cpu_count()} cores"
    return f"measured on {date.today()}: {report.processor()}, {cores}"
