"""The commands: `python -m course_lib doctor`, `run`, `grade` and others."""

from __future__ import annotations

import argparse
import importlib
import sys

# each with the module whose `main` runs it
COMMANDS = {
    "doctor": ("checkup", "what this machine offers, and how to get the rest"),
    "work": ("workspace.command", "make or update your own copy of the lessons"),
    "run": ("authoring.execute", "execute notebooks; `run --help` says how"),
    "grade": (
        "grading.command",
        "grade notebooks that were handed in; `grade --help` says how",
    ),
    "release": (
        "authoring.release",
        "make exercises from solutions; `release --help` says how",
    ),
    "path": ("authoring.path", "write the links between lessons and exercises"),
    "draft": ("authoring.draft", "add the cells of a new exercise to a solution"),
}


def _run(command, args):
    """Run the module of a command, which is imported only now."""
    try:
        module = importlib.import_module(f"course_lib.{COMMANDS[command][0]}")
    except ImportError as error:
        if command != "grade":
            raise
        print(
            f"grading needs {error.name}. Install it: pip install -c constraints.txt"
            ' -e ".[grade]" (make grade does)',
            file=sys.stderr,
        )
        return 2
    return module.main(args)


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
    return _run(options.command, options.args)


if __name__ == "__main__":
    sys.exit(main())
