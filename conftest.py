"""The test run: who runs what, notebooks as tests, where the minutes went."""

import base64
import gc
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

# a shell lets what it starts in the background ignore it, and all that is tested would
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # imports leave no garbage; a fifth of their time
# several at once, each on one thread: with more they would wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
# nbformat, which nbval imports, looks for it and does without: two seconds a process
sys.modules.setdefault("rfc3987_syntax", None)
pytest_plugins = ["nbval.plugin"]
collect_ignore = ["work"]  # somebody's own copy
try:
    from tests import forked, lacks, ports, runs
    from tests.runs import pytest_addoption  # noqa: F401
except ImportError:  # a copy of the notebooks alone
    forked = runs = None

ROOT = Path(__file__).parent
KINDS = {"notebooks": "lesson", "solutions": "solution", "exercises": "exercise"}
# what is noted and kept during the tests, by the variable that says where
_FILES = {
    "COURSE_LIB_PROGRESS": "progress.jsonl",
    "COURSE_LIB_CACHE": "cache",
    "TMPDIR": "",
}
CHECKS = "tests/test_checks.py"
AGAIN = "tests/test_start_methods.py"
# seconds of CPU, roughly, of the groups that take most; of a lesson's cells ten
LONG = {
    "tests/test_browser_lessons.py": 300,
    "tests/test_judges.py": 140,
    "tests/test_grading_attacks.py": 98,
    CHECKS: 74,
    "tests/test_mutants.py": 60,
    "tests/test_browser_scenes.py": 60,
    f"{CHECKS} 5.2": 53,
    f"{AGAIN} 5.2": 53,
    "tests/test_browser.py": 50,
    "tests/test_scripts.py": 50,
    "tests/test_handed_out.py": 40,
    "tests/faults/test_4_notebook.py": 40,
    f"{CHECKS} 4.2": 37,
    f"{CHECKS} 1.3": 32,
    f"{CHECKS} 6.3": 31,
    f"{CHECKS} 2.1": 26,
    "tests/test_sweeps.py": 20,
    "tests/faults/test_8_machine.py": 19,
    "tests/faults/test_beside_the_table.py": 18,
    "tests/test_launch.py": 18,
    "tests/test_outside.py": 17,
    "tests/faults/test_3_deadlock.py": 17,
    "tests/test_vgpu_operators.py": 16,
    "tests/test_vgpu_nestings.py": 15,
    "tests/test_grading_cluster.py": 15,
    "tests/faults/test_6_values.py": 15,
    "tests/test_grade_command.py": 15,
    "tests/test_docs.py": 12,
    "tests/test_exercises.py": 12,
    "tests/faults/test_7_output.py": 12,
}
BROWSED = ROOT / "tests/test_browser_lessons.py"
# no test fails by a time
_OVER = ", TOO LONG if nothing else ran here"
_before = pytest.StashKey[tuple]()


def pytest_configure(config):
    """Keep the tests away from a learner's own progress, and from results of before."""
    folder = tempfile.mkdtemp(prefix="course-tests-")
    os.chmod(folder, 0o1777)  # as /tmp: a sandbox reads there as another user
    config.stash[_before] = folder, {name: os.environ.get(name) for name in _FILES}
    for name, file in _FILES.items():  # kernels inherit them
        os.environ[name] = os.path.join(folder, file)
    tempfile.tempdir = None  # it is looked up again
    if runs:  # workers read the command line themselves
        runs.settle(config)
    if forked:
        # kernels need not import anew what all import, those of lessons included
        _until_the_end(config, forked.forking())
        _until_the_end(config, ports.for_kernels())


def _until_the_end(config, context):
    context.__enter__()
    config.add_cleanup(lambda: context.__exit__(None, None, None))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config):
    """Nor need workers, which are forked, too."""
    if forked:
        _until_the_end(config, forked.forking_workers())


def pytest_keyboard_interrupt():
    """Pass it on: workers have sessions of their own, which no terminal reaches."""
    if forked:
        forked.interrupt_workers()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Look for garbage from now on, and never again in what was imported."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure(config):
    """Put the environment back and remove the files."""
    folder, before = config.stash[_before]
    for name, value in before.items():
        del os.environ[name]
        if value is not None:
            os.environ[name] = value
    tempfile.tempdir = None
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """What a lesson shows is looked at as it runs; checks in exercises are not started.

    The groups that take long come first, so that no worker has one left at the end.
    """
    for item in items:
        if item.path.parent.name == "notebooks" and hasattr(item, "cell"):
            item.runtest = _looked_at(item)
        if ROOT / "exercises" in item.path.parents and _is_check(item):
            item.runtest = _not_started(item)
    if runs:
        runs.mark(config, items)
    yield  # what -k and -m leave
    if runs:
        left = runs.of(config.option.run, items, {*map(_browsed, items)})
        config.hook.pytest_deselected(items=list({*items} - {*left}))
        items[:] = left
    items.sort(key=lambda item: -_seconds(group(item.nodeid)))


def _seconds(name):
    """What a group takes, if it takes long."""
    return LONG.get(name, 10 * name.endswith(".ipynb"))


def _browsed(item):
    """The lesson that a test runs in a browser, or None."""
    if item.path != BROWSED or any(
        mark.args[0] for mark in item.iter_markers("skipif")
    ):
        return None
    return item.callspec.params["lesson"]


def group(name):
    """What one worker runs in one go: a file, of checks the answers to one exercise."""
    file, _, test = name.partition("::")
    answers = re.search(r"\[(\d\.\d[a-z]?)[-\]]", test)
    return f"{file} {answers[1]}" if answers and file in (CHECKS, AGAIN) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal groups to the workers."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group(nodeid)

    return Groups(config, log)


def _looked_at(item):
    """A `runtest` for a cell of a lesson that looks at the figures it shows."""
    run = item.runtest

    def runtest():
        run()
        outputs = item.test_outputs or []
        figures = [o.data for o in outputs if "image/png" in o.get("data", {})]
        faults = [*map(fault_of, figures), other_answer(item.cell.outputs, outputs)]
        for fault in filter(None, faults):
            item.raise_cell_error(fault)

    return runtest


def other_answer(stored, outputs):
    """How the answer to a guess differs from the stored one, or nothing.

    The text goes on from the option that the stored run gave. A number that was an
    option itself is counted or computed, so it comes again; a measured one was near, or
    a share that was an option by chance. A measured time decides nothing: where it is
    another one the lesson says so itself.
    """
    import torch

    if any(map(_TIMED.match, _pages(outputs))):
        return ""
    before, now = map(answer_of, (stored, outputs))
    if ", nearest to " in before or before.endswith("%"):
        before, now = (answer.split(" nearest to ")[-1] for answer in (before, now))
    if before == now or torch.cuda.is_available():
        return ""  # GPUs may give other numbers
    return f"the answer is {now!r}, and the lesson goes on from {before!r}"


def answer_of(outputs):
    """What `Guess.was` says in bold: "2", "1.98, nearest to 2"; or nothing."""
    cards = map(_CARD.match, _pages(outputs))
    return next((card[1].rstrip(".") for card in cards if card), "")


_CARD = re.compile('<div style="border-left:[^>]*><b>(.*?)</b>')
_TIMED = re.compile('<div style="border-left:[^>]* class="timed')


def _pages(outputs):
    return [output.get("data", {}).get("text/html", "") for output in outputs]


def fault_of(figure):
    """What is wrong with a figure as a notebook shows it, or nothing."""
    from PIL import Image

    if not re.search(r'<img alt="[^"]+"', figure.get("text/html", "")):
        return "this figure has no text for screen readers"
    with Image.open(io.BytesIO(base64.b64decode(figure["image/png"]))) as picture:
        empty = picture.convert("RGB").getcolors(1)
    return "this figure is empty: all of it has one colour" if empty else ""


def _is_check(item):
    cell = getattr(item, "cell", None)  # nbval's items alone have one
    return cell is not None and cell.metadata.get("nbgrader", {}).get("grade") is True


def _not_started(item):
    """A `runtest` for the item of a check whose answer is the stub."""
    from nbval.plugin import NbCellError

    run = item.runtest

    def runtest():
        # nbval goes on with the next cell whatever comes of this one
        try:
            run()
        except NbCellError:
            errors = [o.evalue for o in item.test_outputs if o.output_type == "error"]
            if not any("not started" in error for error in errors):
                raise
        else:
            item.raise_cell_error(
                "this check accepts the stub (or an answer was written here): it has"
                " to say 'not started'"
            )

    return runtest


def pytest_terminal_summary(terminalreporter):
    """Say how much ran, where the minutes went, how long each notebook took.

    No time fails a test.
    """
    stats = terminalreporter.stats
    passed = [_notebook(report) for report in stats.get("passed", [])]
    cells = Counter(name.partition("/")[0] for name in passed if name)
    files = Counter(name.partition("/")[0] for name in {*passed} - {""})
    for kind, count in _properties(stats, "cells"):
        files[kind] += 1
        cells[kind] += count
    counts = [_many(passed.count(""), "test")] + [
        f"{_many(files[folder], kind)} ({_many(cells[folder], 'cell')})"
        for folder, kind in KINDS.items()
        if files[folder]
    ]
    answers = sum(1 for _ in _properties(stats, "answer"))
    counts += [_many(answers, "answer")] * bool(answers)
    skipped = len(stats.get("skipped", []))
    terminalreporter.write_line(f"passed: {', '.join(counts)}; skipped: {skipped}")
    lines = [*_noted(stats), *_times(stats), *_slowest(stats)]
    lines += lacks.lines(stats.get("skipped", [])) if forked else []
    for line in lines:
        terminalreporter.write_line(line)


def _properties(stats, name, outcomes=("passed",)):
    """What tests with these outcomes recorded under this name."""
    for report in [one for outcome in outcomes for one in stats.get(outcome, [])]:
        properties = getattr(report, "user_properties", ())
        yield from (value for key, value in properties if key == name)


def _slowest(stats, count=10):
    """A line with the files whose tests took longest, seconds of all workers."""
    seconds = Counter()
    for reports in stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > 1:
        slow = [f"{name} {time:.0f} s" for name, time in seconds.most_common(count)]
        yield f"slowest of {len(seconds)} files: {', '.join(slow)}"


def _noted(stats):
    """What tests want to be read: record_property("summary", line)."""
    yield from _properties(stats, "summary", outcomes=("passed", "failed"))


def _many(count, noun):
    return f"{count} {noun}{'s' * (count != 1)}"


def _notebook(report):
    """The notebook that a report is about, as pytest names it, or nothing."""
    name = report.nodeid.partition("::")[0]
    return name if name.endswith(".ipynb") else ""


def _times(stats):
    """A line for each notebook: its cells, its seconds, the seconds it may take."""
    cells, seconds = Counter(), Counter()
    everything = [report for reports in stats.values() for report in reports]
    for report in everything:
        # a kernel starts in the set-up of its first cell
        if isinstance(report, pytest.TestReport) and _notebook(report):
            seconds[_notebook(report)] += report.duration
            cells[_notebook(report)] += report.when == "call"
    for name in sorted(seconds):
        line = f"{name}: {_many(cells[name], 'cell')}, {seconds[name]:.0f} s"
        budget = _budget(ROOT / name)
        over = "" if budget is None or seconds[name] <= budget else _OVER
        yield f"{line} of {budget:g} s{over}" if budget else line


def _budget(path):
    """The seconds that a notebook may take by its metadata, or None."""
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        return metadata["course"]["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
