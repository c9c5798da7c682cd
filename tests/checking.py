"""Checks of answers in this process; their ranks come from the warm server.

What a check does to an answer is the same as in a notebook: the given cells have run,
the answer is a function of `__main__`, the check launches it. A launch of one rank may
be replaced by a call: the answer and what it is given are copied as by a launch, and
whatever is raised sends it to a real rank after all.
"""

import gc
import hashlib
import importlib
import io
import json
import linecache
import multiprocessing
import re
import signal
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from unittest import mock

import torch
from torch import overrides

from course_lib.exercises import attempt, baseline, checking, folders
from course_lib.exercises.attempt import Wrong
from course_lib.exercises.checking import NotStarted, NotYet
from course_lib.launching import payload
from course_lib.launching.results import Results
from course_lib.studies import cache as kept
from course_lib.tracing.meter import Meter

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "exercises").glob("*.ipynb"))
_CALL = 10  # seconds of a call, which is then made in a rank that can be ended


@dataclass(frozen=True)
class Outcome:
    """What a check said: `right`, `not yet` or `not started`, its sentence and hint."""

    status: str
    message: str
    hint: str
    wrong: Wrong | None = None


@cache
def cells(notebook: Path) -> dict:
    """The code cells of a notebook by id, in order."""
    every = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return {c["id"]: "".join(c["source"]) for c in every if c["cell_type"] == "code"}


def check_cell(exercise: str) -> str:
    """The id of the cell that checks an exercise."""
    return f"check-{exercise.replace('.', '-')}"


def answer_cell(exercise: str) -> str:
    """The id of the cell with the answer to an exercise."""
    return check_cell(exercise).replace("check", "answer", 1)


def notebook_of(exercise: str) -> Path:
    """The notebook that holds an exercise."""
    found = [one for one in NOTEBOOKS if check_cell(exercise) in cells(one)]
    assert found, (
        f"no notebook in exercises/ has the check of {exercise}; make it with:"
        " .venv/bin/python -m course_lib release"
    )
    return found[0]


@cache
def given(notebook: Path) -> dict:
    """The variables after the cells of a notebook that answers build on."""
    variables = {"__name__": "__main__"}
    for name, source in cells(notebook).items():
        if name.startswith(("setup", "plain-", "bug-", "run")):
            _run(source, f"<{notebook.stem} {name}>", variables)
    return variables


def _run(source, name, variables):
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = len(source), None, lines, name  # it travels to the ranks
    exec(compile(source, name, "exec"), variables)


def outcome(
    exercise: str, source: str, *, timeout=None, called: bool = False
) -> Outcome:
    """What the check of an exercise says of an answer; `called`: without one rank."""
    call = cells(notebook_of(exercise))[check_cell(exercise)]
    if timeout:
        call = call.replace(")", f", timeout={timeout})")
    found, kind = [], _kind(called=called)
    asked = mock.patch.multiple(checking, Attempt=kind, solve=_noting(found))
    try:
        with _answered(exercise, source) as variables, asked:
            right = eval(call, variables)
        return Outcome("right", right.text, "")
    except (NotYet, NotStarted) as error:
        status = "not yet" if isinstance(error, NotYet) else "not started"
        return Outcome(status, error.found, error.hint, *found)


def _noting(found):
    """`solve` that also puts what it raises into a list."""
    solve = checking.solve

    def noting(*args):
        try:
            return solve(*args)
        except Wrong as wrong:
            found.append(wrong)
            raise

    return noting


def mistake(
    exercise: str, source: str, *, seed=0, timeout=None, called: bool = False
) -> Wrong | None:
    """What the cases of a seed find wrong in an answer; None if it is right."""
    task = checking.exercises()[exercise]
    name = _function(exercise)
    kind, seconds = _kind(called=called), timeout or attempt.SECONDS
    try:
        with _answered(exercise, source) as variables:
            checking.solve(task, kind(variables[name], timeout=seconds), seed)
    except Wrong as wrong:
        return wrong
    return None


def first_seen(exercise: str, source: str, *, called: bool = False) -> list:
    """Each case of seed 0 with what was seen of a right answer."""
    task, pairs = checking.exercises()[exercise], []

    def judge(case, seen):
        pairs.append((case, seen))
        return task.judge(case, seen)

    with _answered(exercise, source) as variables:
        name = _function(exercise)
        checking.solve(
            replace(task, judge=judge), _kind(called=called)(variables[name])
        )
    return pairs


def _function(exercise):
    """The name of the function that an exercise asks for."""
    call = cells(notebook_of(exercise))[check_cell(exercise)]
    return re.search(r", (\w+)", call)[1]


def _kind(*, called):
    return Called if called else attempt.Attempt


@contextmanager
def _answered(exercise, source):
    """The variables of the notebook after the answer cell, in a block."""
    variables, name = dict(given(notebook_of(exercise))), f"<answer to {exercise}>"
    _run(source, name, variables)
    try:
        with _own_random_state(), _trained_once():
            yield variables
    finally:
        del linecache.cache[name]


@contextmanager
def _own_random_state():
    with torch.random.fork_rng(devices=[]):
        yield


_kept = {}  # what checks compute for their own use, the same for every answer


def _keep(key, compute):
    """What `compute` gave when it was first called for this key."""
    if key not in _kept:
        _kept[key] = compute()
    return _kept[key]


@contextmanager
def _trained_once():
    """Train only once, for the same batches and mistakes, what checks compare with."""
    train = baseline.weights_after

    def weights_after(batches, *, start=None, **how):
        batches = list(batches)
        tensors = [*chain(*batches), *(start or {}).values()]
        key = "weights", kept.digest(tensors), *sorted(how.items())
        return _keep(key, lambda: train(batches, start=start, **how))

    with mock.patch.object(baseline, "weights_after", weights_after):
        yield


@contextmanager
def _remembered():
    """Compute only once, for a case, what checks compare all answers with."""

    with ExitStack() as stack:
        for module in map(importlib.import_module, folders.observing()):
            if hasattr(module, "costs"):
                once = _once(module.costs)
                stack.enter_context(mock.patch.object(module, "costs", once))
        yield


def _once(compute):
    def remembered(*args):
        file = io.BytesIO()
        payload.dump(args, file)
        digest = hashlib.sha256(file.getvalue()).digest()
        return _keep((compute.__module__, digest), lambda: compute(*args))

    return remembered


class Called(attempt.Attempt):
    """An attempt that calls the body of one rank where no rank is needed."""

    def run(self, observe, case):
        if case.world_size == 1 and not case.trace:
            with _frozen():
                with suppress(BaseException):
                    value = self._call(observe, case.given)
                    return Results(
                        [value],
                        output=[""],
                        seconds=[0.0],
                        trace=None,
                        meter=Meter(1),
                        title="called",
                    )
                # what a call that failed still holds would take room from the next
                gc.collect()
        return super().run(observe, case)

    def _call(self, observe, given):
        body = attempt._Named(observe, self.answer, self.name)
        with _limited(), _as_in_a_rank(), _remembered():
            return _copied(body, (given,))


def _copied(fn, args):
    """What a call gives, all that goes in and comes out copied as by a launch."""
    fn, args = _through((fn, args))
    return _through(fn(0, 1, *args))


def _through(value):
    file = io.BytesIO()
    payload.dump(value, file)
    file.seek(0)
    return payload.load(file)


@contextmanager
def _frozen():
    """Keep the collector from what was there before, as the server of ranks does."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _as_in_a_rank():
    """PyTorch's and Python's own settings: those of the check stay in its process."""
    start = multiprocessing.get_start_method(allow_none=True)
    modes = [
        overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())
    ]
    try:
        yield
    finally:
        multiprocessing.set_start_method(start, force=True)
        for mode in reversed(modes):
            overrides._push_mode(mode)


class _TooLong(BaseException):
    pass


@contextmanager
def _limited():
    def ring(*_):
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    # a limit of the test run itself stands behind it
    left, _ = signal.setitimer(signal.ITIMER_REAL, _CALL)
    began = time.monotonic()
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        passed = time.monotonic() - began
        signal.setitimer(signal.ITIMER_REAL, max(left - passed, 0.01) if left else 0)
