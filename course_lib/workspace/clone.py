"""What the course hands out: files of its clone, and who may have written in them."""

import contextlib
import os
import subprocess
from pathlib import Path

from course_lib.workspace import notebooks
from course_lib.workspace.plan import Original

FOLDERS = ("notebooks", "exercises", "solutions", "docs")
_LINKED = ("benchmarks/*.md", "README.md")  # lessons and pages link to them


def course(root: Path) -> dict[str, Original | None]:
    """Return what is handed out, by its path below `root`; None for what is damaged."""
    git = _Git(root)
    tops = (top for part in (*FOLDERS, *_LINKED) for top in root.glob(part))
    files = (file for top in tops for file in _below(top))
    return {file.relative_to(root).as_posix(): _original(file, git) for file in files}


def _below(path):
    """The files at and below a path, in order: nothing hidden, no links."""
    if path.is_symlink() or path.name.startswith((".", "__pycache__")):
        return
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from _below(inner)
    elif path.is_file():
        yield path


def _original(path, git):
    """The file; as it was committed where somebody's answers or a mess are in it."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    is_exercise = path.parent.name == "exercises"
    if path.suffix != ".ipynb":
        return Original(data, certain=git.is_clean(path))
    notebook = notebooks.parse(data)
    if notebook and not is_exercise:
        return Original(data, certain=git.is_clean(path))
    if notebook and notebooks.is_released(notebook):
        return Original(data)
    committed = git.committed(path)
    before = notebooks.parse(committed)
    certain = bool(before and (not is_exercise or notebooks.is_released(before)))
    if before and (certain or not notebook):
        # what stands in a hub's clone is nothing for its learners
        started = data if may_write(path) else None
        return Original(committed, certain=certain, started=started)
    return Original(data, certain=not may_write(path)) if notebook else None


def may_write(path: Path) -> bool:
    """Return True where the caller may write; in a hub's clone learners may not."""
    return os.access(path, os.W_OK)


class _Git:
    """What git knows of the clone; where it knows nothing, who may write there."""

    def __init__(self, root):
        self.root = root
        self.committed_names = set()
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.changed = self._names("diff", "-z", "--name-only", "--relative")
            self.committed_names = self._names("ls-tree", "-rz", "--name-only")

    def is_clean(self, path):
        """Return True if nobody has written into a file since it was committed."""
        is_known = path in self.committed_names and path not in self.changed
        return is_known or not may_write(path)

    def committed(self, path):
        """Return a file as it was committed, empty if git has none."""
        if path not in self.committed_names:
            return b""
        return self._ask("show", f"HEAD:./{path.relative_to(self.root).as_posix()}")

    def _names(self, *args):
        names = self._ask(*args, "HEAD").split(b"\0")
        return {self.root / os.fsdecode(name) for name in names if name}

    def _ask(self, *args):
        # a hub's clone belongs to somebody else, and its code is run anyway
        options = ("--no-optional-locks", "-c", f"safe.directory={self.root}")
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        how = {"cwd": self.root, "env": env, "capture_output": True, "timeout": 20}
        return subprocess.run(["git", *options, *args], check=True, **how).stdout
