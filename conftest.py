"""Notebooks as tests: exercises as they are shipped, how long each notebook takes."""

import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
KINDS = {"notebooks": "lesson", "solutions": "solution", "exercises": "exercise"}
# what is noted and kept during the tests, by the variable that says where
_FILES = {"COURSE_LIB_PROGRESS": "progress.jsonl", "COURSE_LIB_CACHE": "cache"}
_before = pytest.StashKey[tuple]()


def pytest_configure(config):
    """Keep the tests away from a learner's own progress, and from results of before."""
    folder = tempfile.mkdtemp(prefix="course-tests-")
    config.stash[_before] = folder, {name: os.environ.get(name) for name in _FILES}
    for name, file in _FILES.items():  # kernels inherit them
        os.environ[name] = os.path.join(folder, file)


def pytest_unconfigure(config):
    """Put the environment back and remove the files."""
    folder, before = config.stash[_before]
    for name, value in before.items():
        del os.environ[name]
        if value is not None:
            os.environ[name] = value
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """In exercises, a check passes if it says that its exercise is not started.

    Of lessons and solutions, which take half a minute each, only the first is quick.
    """
    for item in items:
        folder, name = item.path.parent.name, item.path.name
        if folder in ("notebooks", "solutions") and not name.startswith("00"):
            item.add_marker(pytest.mark.slow)
        if ROOT / "exercises" in item.path.parents and _is_check(item):
            item.runtest = _not_started(item)


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
    """Say how much ran and how long each notebook took; no time fails a test.

    pytest itself lists every skip with its reason (-ra).
    """
    passed = [_notebook(report) for report in terminalreporter.stats.get("passed", [])]
    cells = Counter(name.partition("/")[0] for name in passed if name)
    files = Counter(name.partition("/")[0] for name in {*passed} - {""})
    counts = [_many(passed.count(""), "test")] + [
        f"{_many(files[folder], kind)} ({_many(cells[folder], 'cell')})"
        for folder, kind in KINDS.items()
        if files[folder]
    ]
    skipped = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"passed: {', '.join(counts)}; skipped: {skipped}")
    for line in [*_noted(terminalreporter.stats), *_times(terminalreporter.stats)]:
        terminalreporter.write_line(line)


def _noted(stats):
    """What tests want to be read: record_property("summary", line)."""
    for report in [*stats.get("passed", []), *stats.get("failed", [])]:
        properties = getattr(report, "user_properties", ())
        yield from (text for key, text in properties if key == "summary")


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
        over = ", TOO LONG" * (budget is not None and seconds[name] > budget)
        yield f"{line} of {budget:g} s{over}" if budget else line


def _budget(path):
    """The seconds that a notebook may take by its metadata, or None."""
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        return metadata["course"]["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
