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
    quoted,
    recording,
    scaling,
    scenes,
    timed,
    virtual,
)
from benchmarks.nbgrader import NbgraderFailed

# fmt: off
_MODULES = (
    all_reduce, batch_size, checks, grading, launching, lesson_times, meter,
    published, recording, scaling, scenes, timed, virtual,
)
# fmt: on
BENCHMARKS = {module.__name__.rpartition(".")[2]: module.run for module in _MODULES}


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
            Path(__file__).with_name(f"{name}.md").write_text(table)
            for path, text in getattr(table, "files", {}).items():
                path.write_text(text, encoding="utf-8")
    if options.save:
        quoted.main()
    return status


def _options(arguments):
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=_rounds, help="how often each is measured")
    parser.add_argument(
        "--save", action="store_true", help="write benchmarks/NAME.md and its numbers"
    )
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
