"""Examine this machine: what the course can use, what a lack costs, how to mend it."""

from course_lib.checkup.rows import checks, doctor, install_command, main
from course_lib.checkup.table import Checkup, Finding

__all__ = ["Checkup", "Finding", "checks", "doctor", "install_command", "main"]
