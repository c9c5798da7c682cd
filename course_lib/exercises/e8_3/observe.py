"""Exercise 8.3, in a rank: a training that is killed, in a step or while it saves."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from course_lib.exercises import baseline
from course_lib.exercises.counted_work import Work
from course_lib.exercises.file_states import FolderStates, keep, restore
from course_lib.exercises.values import plain
from course_lib.system.patching import patch

EVERY = 5  # steps from one checkpoint to the next
# bytes of a file at which a rank is killed; the weights alone have more
_LARGEST = 2000


def observe(rank, world_size, answer, given):
    """Return what a training gives, its steps, and after which files were written."""
    model, folder = baseline.network(given["seed"]), Path(given["folder"])
    found = len(os.listdir(folder))
    if "state" in given:
        restore(folder, given["state"])
    kill = given["kill"] if rank in given["ranks"] else {}
    states = FolderStates(folder) if "record" in given else None
    faults = Faults(model, states, **kill)
    with faults, noted_writes(folder, faults) as writes:
        weights = answer(
            rank, world_size, model, given["data"], given["steps"], str(folder)
        )
    if states:
        faults.look()
        keep(states.close(), Path(given["record"]))
    return {
        "returned": plain(weights),
        "passes": len(faults.passes),
        "saves": [passes for passes, _ in writes],
        "files": sorted({name for _, name in writes}),
        "found": found,
        "left": not dist.is_initialized(),
    }


class Faults(Work):
    """Kills this rank as step `at` begins, or as it writes a file after step `saving`.

    The second is left to the system: a file may not grow over some size (man 2
    setrlimit). So half a file is there, however it is written. After step `moving` the
    rank is killed as soon as it has removed or renamed a file. With `states` nothing is
    killed: they take in what a kill would leave, in each moment.
    """

    def __init__(self, model, states=None, at=0, saving=0, moving=0):
        super().__init__(model)
        self.states, self.at = states, at
        self.saving, self.moving = saving, moving

    def look(self, *, step_begins=False):
        """Note the states of the folder, and how many steps a restart may not repeat.

        A save is over when the next step begins.
        """
        if self.states:
            steps = len(self.passes) - step_begins
            during = max(steps - 1, 0) // EVERY * EVERY
            after = steps // EVERY * EVERY if step_begins else during
            self.states.look(during, after)

    def move(self, original, *args, **kwargs):
        """Remove or rename a file, and perhaps be killed."""
        self.look()
        original(*args, **kwargs)
        self.look()
        if 0 < self.moving <= len(self.passes):
            os.kill(os.getpid(), signal.SIGKILL)

    def make_folder(self, original, path, *args, **kwargs):
        """Make a folder, and hear of what changes in it."""
        original(path, *args, **kwargs)
        if self.states:
            self.states.watch(path)

    def __exit__(self, *error):
        super().__exit__(*error)
        if self.saving:
            limit_files(None)  # what the rank returns is written to a file, too

    def note_pass(self, packet, args):
        """Note a pass, and end this rank where it is to end."""
        passes = len(self.passes)
        super().note_pass(packet, args)
        if passes == len(self.passes):
            return
        self.look(step_begins=True)
        if len(self.passes) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(self.passes) == self.saving:
            limit_files(_LARGEST)


def limit_files(size):
    """Let a file that grows over this size kill the rank; None: as before."""
    import resource  # not on every system

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN if size is None else signal.SIG_DFL)


@contextlib.contextmanager
def noted_writes(folder, faults):
    """After how many passes which file in a folder was opened for writing."""
    writes, whole = [], Path(os.path.abspath(folder))

    def note(path):
        if not isinstance(path, int):
            path = Path(os.path.abspath(os.fsdecode(path)))
            if whole in path.parents:
                faults.look()
                writes.append((len(faults.passes), str(path.relative_to(whole))))

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
        patch(stack, (os, "mkdir"), faults.make_folder)
        yield writes
