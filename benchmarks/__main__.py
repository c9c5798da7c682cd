"""`python -m benchmarks [names] [--rounds N] [--save]`: measure and print tables."""

import argparse
import sys
from pathlib import Path

from benchmarks import (
    all_reduce,
    batch_size,
    checks,
    grading,
    launching,
    lesson_times,
    meter,
    published,
    recording,
    report,
    scaling,
    scenes,
    virtual,
)
from benchmarks.nbgrader import NbgraderFailed

BENCHMARKS = {
    "all_reduce": all_reduce.run,
    "batch_size": batch_size.run,
    "checks": checks.run,
    "grading": grading.run,
    "launching": launching.run,
    "lesson_times": lesson_times.run,
    "meter": meter.run,
    "published": published.run,
    "recording": recording.run,
    "scaling": scaling.run,
    "scenes": scenes.run,
    "virtual": virtual.run,
}
# what each measures: its numbers are those of these files
_LAUNCH = (
    *(f"launching/{name}" for name in ("agent", "forkserver", "launcher", "payload")),
    *(f"launching/{name}" for name in ("rank_process", "rendezvous", "server")),
    *("system/linux", "system/sockets"),
)
_STUDIES = ("stacked", "study", "sweep")
_ROOM = [f"benchmarks/{name}.py" for name in ("classroom", "nbgrader", "watching")]
SOURCES = {
    "all_reduce": ["course_lib/accelerators/alpha_beta.py"],
    "batch_size": [f"course_lib/studies/{name}.py" for name in _STUDIES],
    "checks": [
        *(f"course_lib/exercises/{name}/*.*" for name in ("judge", "observe", "texts")),
        *("course_lib/exercises/mistakes/*.json", "tests/unseen/*"),
        *("tests/right/*/*", "tests/wrong/*/*"),
    ],
    "grading": ["course_lib/grading/**/*.py", *_ROOM],
    "launching": [
        *(f"course_lib/{name}.py" for name in _LAUNCH),
        "benchmarks/helper.py",
        "benchmarks/ranks.py",
    ],
    # not the lessons: with each word that changed all would run again; a date tells
    "lesson_times": [],
    "meter": [
        *(f"course_lib/tracing/{name}.py" for name in ("messages", "meter")),
        "course_lib/system/connections.py",
    ],
    "published": [
        *(
            f"course_lib/accelerators/{name}"
            for name in ("*.csv", "clock.py", "cost.py", "hardware.py")
        ),
        *("course_lib/accelerators/vgpu/*.py", "benchmarks/published.csv"),
        *("benchmarks/modelled.py", "benchmarks/trained.py"),
    ],
    "recording": ["course_lib/tracing/ranks.py", "course_lib/tracing/profiler.py"],
    "scaling": [
        *(f"course_lib/clusters/{name}.py" for name in ("scaling", "fake_ranks")),
        "course_lib/accelerators/alpha_beta.py",
        "benchmarks/published_scaling.csv",
    ],
    # as lesson_times: the pages that are measured stand in the lessons
    "scenes": ["course_lib/scenes/scene.js", "course_lib/scenes/*.css"],
    "virtual": ["course_lib/accelerators/vgpu/*.py"],
}


def sources(name: str) -> str:
    """A line with the hash of the files that a benchmark measures."""
    return f"Sources: {report.digest([*SOURCES[name], f'benchmarks/{name}.py'])}\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that are named, or all; the exit code comes back."""
    options, status = _options(arguments), 0
    for name in options.names or BENCHMARKS:
        try:
            table = BENCHMARKS[name](options.rounds)
        except KeyboardInterrupt:
            print(f"{name}: interrupted, nothing measured", file=sys.stderr)
            return 130
        except NbgraderFailed as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        print(table)
        if options.save:
            Path(__file__).with_name(f"{name}.md").write_text(
                f"{table}\n{sources(name)}"
            )
            for path, text in getattr(table, "files", {}).items():
                path.write_text(text, encoding="utf-8")
    return status


def _options(arguments):
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=_rounds, help="how often each is measured")
    parser.add_argument("--save", action="store_true", help="write benchmarks/NAME.md")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}: choose from {', '.join(BENCHMARKS)}")
    return options


def _rounds(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
