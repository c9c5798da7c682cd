"""A shell command with a clock, for what takes long and says nothing."""

import os
import signal
import subprocess
import time

from course_lib.display import progress_line

_EVERY = 0.5  # seconds between two looks


def lines(command: str) -> list[str]:
    """Run a command by a shell; return the lines that it has written.

    Meanwhile a line says for how long it runs. An interrupt ends the command, too.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a shell does not hand on what ends it
    )
    with process, progress_line("the command starts …") as show:
        try:
            while True:
                try:
                    return process.communicate(timeout=_EVERY)[0].splitlines()
                except subprocess.TimeoutExpired:
                    show(f"runs for {time.monotonic() - start:.0f} s …")
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
