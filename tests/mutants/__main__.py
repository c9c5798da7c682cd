"""`python -m tests.mutants [NAME ...]`: is each deliberate mistake caught?

For each mutant of mutants.toml the files that git knows are copied, the mistake is made
in the copy, and the tests of its part run there. It is caught if one of them fails, or
finds at its end that something was left behind: by `make test` if such a test is in it,
else by `make proof`. Exit status: 1 if one was not caught.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.answers import tomllib

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")
_SECONDS = 900  # for the tests of one mutant
RUNS = {"make test": "not proof", "make proof": "proof"}  # and whose tests they are
_CAUGHT = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)


def mutants() -> list[dict]:
    """The mutants: name, part, file, old text, new text, tests."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]


def mutated(text: str, mutant: dict) -> str:
    """The text of a mutant's file with its mistake.

    Errors: `ValueError` if the place of the mistake is not clear.
    """
    count = text.count(mutant["old"])
    if count != 1:
        raise ValueError(
            f"{mutant['name']}: its `old` stands {count} times in {mutant['file']}, not"
            " once. Write it anew for the code as it is now."
        )
    return text.replace(mutant["old"], mutant["new"])


def copy(folder: Path) -> None:
    """Copy the files of the project, those that are new to git included."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def caught(mutant: dict) -> tuple[str, str, str]:
    """The run and the test that caught a mutant, or nothing; and what was printed."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        os.chmod(place, 0o755)  # the grader's sandbox reads it as another user
        folder = Path(place)
        copy(folder)
        file = folder / mutant["file"]
        text = mutated(file.read_text(encoding="utf-8"), mutant)
        file.write_text(text, encoding="utf-8")
        printed = ""
        for run, marked in RUNS.items():
            try:
                printed += _tests(["-m", marked, *mutant["tests"]], folder)
            finally:
                _end_processes(folder)
            if tests := _CAUGHT.findall(printed):
                return run, tests[0], printed
    return "", "", printed


def _tests(arguments, folder):
    """What pytest prints of some tests in this folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": place_first(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a job in the background ignores it, and some tests interrupt themselves
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        return process.communicate(timeout=_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return f"not done after {_SECONDS} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def place_first(folder: Path) -> str:
    """A PYTHONPATH by which kernels and ranks import the package of this folder."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def _end_processes(folder):
    """End what the tests of a mutant left behind."""
    mark = f"PYTHONPATH={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def main(arguments: list[str] | None = None) -> int:
    """Run the mutants that are named, or all; the exit code comes back."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args(arguments).names
    every = mutants()
    for name in set(names) - {mutant["name"] for mutant in every}:
        parser.error(f"{LIST} has no mutant {name!r}")
    chosen = [mutant for mutant in every if not names or mutant["name"] in names]
    runs = Counter()
    for mutant in chosen:
        began = time.monotonic()
        run, test, printed = caught(mutant)
        runs[run] += 1
        told = f"{run}, {test}" if run else "NOT CAUGHT"
        print(
            f"{mutant['name']}: {told} ({time.monotonic() - began:.0f} s)", flush=True
        )
        if not run:
            print(printed[-3000:], file=sys.stderr)
    missed = runs.pop("", 0)
    by = "".join(f", {count} by {run}" for run, count in runs.items())
    print(f"{len(chosen) - missed} of {len(chosen)} mutants caught{by}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
