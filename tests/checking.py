"""Checks of answers in this process; their ranks come from the warm server.

What a check does to an answer is the same as in a notebook: the given cells have run,
the answer is a function of `__main__`, the check launches it. A launch of one rank may
be replaced by a call: the answer and what it is given are copied as by a launch, and
whatever is raised sends it to a real rank after all.
"""

import gc
import io
import json
import linecache
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from unittest import mock

import torch
from torch import overrides

from course_lib.exercises import attempt, baseline, checking
from course_lib.exercises.checking import NotStarted, NotYet
from course_lib.exercises.stages.stage01 import overlapping
from course_lib.exercises.stages.stage02 import budget, loop, loop_mistakes
from course_lib.launching import payload
from course_lib.launching.results import Results
from course_lib.studies import cache as kept

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "exercises").glob("*.ipynb"))
_CALL = 10  # seconds of a call, which is then made in a rank that can be ended


@dataclass(frozen=True)
class Outcome:
    """What a check said: `right`, `not yet` or `not started`, its sentence and hint."""

    status: str
    message: str
    hint: str


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
    notebook = notebook_of(exercise)
    variables, name = dict(given(notebook)), f"<answer to {exercise}>"
    call = cells(notebook)[check_cell(exercise)]
    if timeout:
        call = call.replace(")", f", timeout={timeout})")
    kind = Called if called else attempt.Attempt
    _run(source, name, variables)
    try:
        asked = mock.patch.object(checking, "Attempt", kind)
        with asked, _own_random_state(), _trained_once():
            right = eval(call, variables)
        return Outcome("right", right.text, "")
    except (NotYet, NotStarted) as error:
        said, hint = checking.parts(str(error))
        status = "not yet" if isinstance(error, NotYet) else "not started"
        return Outcome(status, said, hint)
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
    train, accumulate = baseline.weights_after, loop_mistakes.trained

    def weights_after(batches, *, start=None, **how):
        batches = list(batches)
        tensors = [*chain(*batches), *(start or {}).values()]
        key = "weights", kept.digest(tensors), *sorted(how.items())
        return _keep(key, lambda: train(batches, start=start, **how))

    def trained(batches, parts=1, *, log=None, **how):
        def compute():
            losses = []
            return accumulate(batches, parts, log=losses, **how), losses

        key = "accumulated", kept.digest(chain(*batches)), parts, *sorted(how.items())
        weights, losses = _keep(key, compute)
        if log is not None:
            log.extend(losses)
        return weights

    with (
        mock.patch.object(baseline, "weights_after", weights_after),
        mock.patch.object(loop_mistakes, "trained", trained),
        mock.patch.object(loop, "trained", trained),
    ):
        yield


@contextmanager
def _remembered():
    """Compute only once what checks of 1.3 and of stage 02 compare all answers with."""
    watched, between, largest = loop._watched, budget._between, budget._largest

    def training(train, batches, parts, *, device):
        def compute():
            return watched(train, batches, parts, device=device)

        return _keep(("plain", parts), compute) if train is loop._plain else compute()

    def memory(data, wanted):
        return _keep(("memory", wanted), lambda: between(data, wanted))

    def fitting(model, data, steps=budget.two_steps):
        device = next(model.parameters()).device
        _, total = torch.get_device_module(device).mem_get_info(device)
        key = "largest", total, steps
        return _keep(key, lambda: largest(model, data, steps=steps))

    def whole_batch(measured):
        return _keep("whole batch", measured)

    with (
        mock.patch.object(overlapping, "_whole_batch", whole_batch),
        mock.patch.object(loop, "_watched", training),
        mock.patch.multiple(budget, _between=memory, _largest=fitting),
    ):
        yield


class Called(attempt.Attempt):
    """An attempt that calls the body of one rank where no rank is needed."""

    def __call__(self, body, *args, world_size, trace=False, why=None):
        if world_size == 1 and not trace:
            with _frozen():
                with suppress(BaseException):
                    value = self._call(body, args)
                    return Results(
                        [value], output=[""], seconds=[0.0], trace=None, title="called"
                    )
                # what a call that failed still holds would take room from the next
                gc.collect()
        return super().__call__(
            body, *args, world_size=world_size, trace=trace, why=why
        )

    def _call(self, body, args):
        with _limited(), _as_in_a_rank(), _remembered():
            return _copied(self._body(body), args)

    def _body(self, body):
        return attempt._Named(body, self.answer, self.name)


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
    """PyTorch's own settings: those of the check stay in its process, too."""
    modes = [
        overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())
    ]
    try:
        yield
    finally:
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
