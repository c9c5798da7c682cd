"""The commands: `python -m course_lib doctor`, `run`, `grade` and others."""

from __future__ import annotations

import argparse
import os
import sys


def doctor(args: list[str]) -> int:
    """Print what this machine offers; 1 if something necessary is missing."""
    argparse.ArgumentParser("python -m course_lib doctor").parse_args(args)
    from course_lib.checkup import doctor as ask

    table = ask()
    print(table.text(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return 1 if table.lacking else 0


def run(args: list[str]) -> int:
    """Run the code of lessons as `course_lib.authoring.execute` does."""
    from course_lib.authoring import execute

    return execute.main(args)


def release(args: list[str]) -> int:
    """Make exercises from solutions as `course_lib.authoring.release` does."""
    from course_lib.authoring import release

    return release.main(args)


def grade(args: list[str]) -> int:
    """Grade notebooks that were handed in as `course_lib.grading.command` does."""
    try:
        from course_lib.grading import command
    except ImportError as error:
        print(
            f"grading needs {error.name}. Install it: pip install -c constraints.txt"
            ' -e ".[grade]" (make grade does)',
            file=sys.stderr,
        )
        return 2
    return command.main(args)


def draft(args: list[str]) -> int:
    """Add the cells of a new exercise as `course_lib.authoring.draft` does."""
    from course_lib.authoring import draft

    return draft.main(args)


COMMANDS = {
    "doctor": (doctor, "what this machine offers, and how to get the rest"),
    "run": (run, "execute notebooks; `run --help` says how"),
    "grade": (grade, "grade notebooks that were handed in; `grade --help` says how"),
    "release": (release, "make exercises from solutions; `release --help` says how"),
    "draft": (draft, "add the cells of a new exercise to a solution"),
}


def main(args: list[str] | None = None) -> int:
    """Run the command that `args` names and return its exit status."""
    listing = "\n".join(f"  {name:<8} {about}" for name, (_, about) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "python -m course_lib",
        usage="%(prog)s COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listing}",
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("args", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(args)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    return COMMANDS[options.command][0](options.args)


if __name__ == "__main__":
    sys.exit(main())
