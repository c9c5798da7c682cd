"""Exercise 8.3, in a rank: a training that is killed, in a step or while it saves."""

import contextlib
import os
import signal
import sys

import torch
import torch.distributed as dist

from course_lib.exercises import baseline
from course_lib.exercises.counted_work import Work
from course_lib.exercises.values import plain
from course_lib.system.patching import patch

# bytes of a file at which a rank is killed; the weights alone have more
_LARGEST = 2000


def observe(rank, world_size, answer, given):
    """Return what a training gives, its steps, and after which files were written."""
    model, folder = baseline.network(given["seed"]), given["folder"]
    kill = given["kill"] if rank in given["ranks"] else {}
    with _Faults(model, **kill) as faults, _writes(folder, faults) as writes:
        weights = answer(rank, world_size, model, given["data"], given["steps"], folder)
    return {
        "returned": plain(weights),
        "passes": len(faults.passes),
        "saves": [passes for passes, _ in writes],
        "files": sorted({name for _, name in writes}),
        "left": not dist.is_initialized(),
    }


class _Faults(Work):
    """Kills this rank as step `at` begins, or as it writes a file after step `saving`.

    The second is left to the system: a file may not grow over some size (man 2
    setrlimit). So half a file is there, however it is written. After step `moving` the
    rank is killed as soon as it has removed or renamed a file.
    """

    def __init__(self, model, at=0, saving=0, moving=0):
        super().__init__(model)
        self.at, self.saving, self.moving = at, saving, moving

    def move(self, original, *args, **kwargs):
        """Remove or rename a file, and perhaps be killed."""
        original(*args, **kwargs)
        if 0 < self.moving <= len(self.passes):
            os.kill(os.getpid(), signal.SIGKILL)

    def __exit__(self, *error):
        super().__exit__(*error)
        if self.saving:
            _limit(None)  # what the rank returns is written to a file, too

    def note_pass(self, packet, args):
        passes = len(self.passes)
        super().note_pass(packet, args)
        if passes < len(self.passes) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if passes < len(self.passes) == self.saving:
            _limit(_LARGEST)


def _limit(size):
    """Let a file that grows over this size kill the rank; None: as before."""
    import resource  # not on every system

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN if size is None else signal.SIG_DFL)


@contextlib.contextmanager
def _writes(folder, faults):
    """After how many passes which file of a folder was opened for writing."""
    writes = []

    def note(path):
        if not isinstance(path, int) and str(path).startswith(folder):
            writes.append((len(faults.passes), os.path.basename(path)))

    def heard(event, args):
        if event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR):
            note(args[0])

    def save(original, obj, f, *args, **kwargs):
        if isinstance(f, str | os.PathLike):
            note(os.fspath(f))  # PyTorch opens it itself, unheard
        return original(obj, f, *args, **kwargs)

    sys.addaudithook(heard)
    with contextlib.ExitStack() as stack:
        patch(stack, (torch, "save"), save)
        for name in ("remove", "unlink", "rename", "replace"):
            patch(stack, (os, name), faults.move)
        yield writes
