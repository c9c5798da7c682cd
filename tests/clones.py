"""Clones without git: what make reads, and a .venv that is this Python's own."""

import sys

NEEDED = ("Makefile", "pyproject.toml", "constraints.txt")


def script(file, text):
    """A program of the shell."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def set_up(clone):
    """Leave what `make setup` leaves: a .venv with its stamps, nothing installed."""
    script(clone / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    (clone / ".venv/.made").write_text(f"{clone.resolve()}\n")
    (clone / ".venv/.setup").touch()
