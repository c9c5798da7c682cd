"""`make versions`: the probes and `make test` with the ends of the range of torch.

`python -m tests.versions [VERSION ...]` takes others. Each is tried by `make
try-torch`, in an environment of its own, with the Python of `.venv`. What was seen is
kept as a row of docs/torch_private.md, with its date.
"""

import argparse
import datetime
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import Requirement

from course_lib.system.torch_versions import supported

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/torch_private.md"
HEADS = ("torch", "Python", "date", "probes", "passed", "failed", "skipped")
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (\d+\.\d+)\.\d+ \|.*$", re.MULTILINE)


@dataclass(frozen=True)
class Tried:
    """What one version of torch did: probes that hold of how many, tests by outcome."""

    torch: str
    probes: str
    passed: int
    failed: int
    skipped: int

    def row(self) -> str:
        """A line of the table."""
        today, python = datetime.date.today().isoformat(), platform.python_version()
        tests = self.passed, self.failed, self.skipped
        cells = self.torch, python, today, self.probes, *(f"{n:,}" for n in tests)
        return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Try each version; 1 if one of them has a failure."""
    parser = argparse.ArgumentParser("python -m tests.versions", description=__doc__)
    parser.add_argument("versions", nargs="*", help="the ends of the range, if none")
    bad = 0
    for version in parser.parse_args(arguments).versions or ends():
        tried = attempt(version)
        PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), tried.row()))
        print(tried.row())
        bad += bool(tried.failed) or not held(tried.probes)
    return int(bad > 0)


def ends() -> list[str]:
    """The oldest torch that the project takes, and the one that is pinned here."""
    major, minor = supported().low
    return [f"{major}.{minor}.0", pinned()]


def pinned() -> str:
    """The torch that constraints.txt has for this Python."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [Requirement(one) for one in text.splitlines() if one.startswith("torch==")]
    [line] = [one for one in lines if not one.marker or one.marker.evaluate()]
    return str(line.specifier).removeprefix("==")


def attempt(version: str) -> Tried:
    """Run `make try-torch`, showing what it says; what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = ["make", "try-torch", f"VERSION={version}"]
        command.append(f"ARGS=--junitxml={report}")
        said = []
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as make:
            for line in make.stdout:
                said.append(line)
                print(line, end="", flush=True)
        if not report.exists():
            sys.exit(f"torch {version}: the tests did not end, see above")
        return told(version, "".join(said), report.read_text(encoding="utf-8"))


def told(version: str, said: str, report: str) -> Tried:
    """The outcome by what make said and by pytest's report."""
    probes = re.search(r"^(\d+ of \d+) probes hold", said, re.MULTILINE)
    if not probes:
        sys.exit(f"torch {version}: the probes did not end, see above")
    suite = ElementTree.fromstring(report).find("testsuite")
    names = ("tests", "failures", "errors", "skipped")
    tests, failures, errors, skipped = (int(suite.get(name)) for name in names)
    failed = failures + errors
    return Tried(version, probes[1], tests - failed - skipped, failed, skipped)


def held(probes: str) -> bool:
    """Whether all probes of "59 of 60" hold."""
    first, last = probes.split(" of ")
    return first == last


def with_row(page: str, row: str) -> str:
    """The page with a row more, in place of that of the same torch and Python."""
    rows = {found.groups(): found[0] for found in _ROW.finditer(page)}
    [found] = _ROW.finditer(row)
    rows[found.groups()] = row
    lines = [rows[key] for key in sorted(rows, key=_numbers)]
    head = f"| {' | '.join(HEADS)} |\n|---|---|---|--:|--:|--:|--:|\n"
    start = page.index(head) + len(head)
    end = page.index("\n\n", start - 1) + 1
    return page[:start] + "\n".join(lines) + "\n" + page[end:]


def _numbers(key):
    return [[int(part) for part in version.split(".")] for version in key]


if __name__ == "__main__":
    sys.exit(main())
