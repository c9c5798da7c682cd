"""Programs for tests, run by a forked Python that has imported all already."""

import os

from tests.forked import Forked
from tests.leftovers import becomes

# python -m course_lib, whose graders are forks of it
COMMAND = """
import sys
from course_lib.__main__ import main
from tests import forked
forked.fork_graders()
sys.exit(main(sys.argv[1:]))
"""


class Python(Forked):
    """`python -c code arguments` as a process that was forked, with its output."""

    def __init__(self, code, *arguments, cwd, env):
        self.printed = [open(os.memfd_create(name)) for name in ("out", "err")]
        job = {"be": "python", "code": code, "arguments": [*map(str, arguments)]}
        files = [file.fileno() for file in self.printed]
        super().__init__(job | {"cwd": str(cwd), "env": env}, files)

    def communicate(self, timeout):
        """What it printed, and its errors, once it has ended."""
        assert becomes(lambda: self.poll() is not None, timeout)
        for file in self.printed:
            file.seek(0)  # it shares the position of what was written
        return [file.read() for file in self.printed]
