"""What exercise 4.10 mends: the texts of five programs, causes, and how text changes.

Nothing here runs a changed text: only ranks do.
"""

import inspect
from pathlib import Path

from course_lib.exercises.e4_10 import runs

# as the notebook has them, by the word with which an answer names them
CAUSES = {
    "start": "ranks begin with different weights",
    "late layer": "a layer was added or replaced after DDP(model)",
    "module": "model.module(x) in training: DDP sends no gradients",
    "same draws": "all ranks draw the same dropout, crops or noise",
    "same order": "the order of the samples is the same in each epoch",
    "all samples": "every rank reads all the samples",
    "overlap": "each rank shuffles by itself: shares overlap, samples are left out",
    "unequal counts": "DDP's mean counts each rank alike, with one label or with ten",
    "not divided": "losses are not divided by the number of micro-batches",
    "early clipping": "clipping before the gradients of a step are complete",
    "own decision": "each rank decides by its own numbers whether it goes on",
    "rank 0 alone": "a collective under if rank == 0",
    "mean of means": "the evaluation takes the mean of the ranks' means",
    "padding": "the evaluation counts padded samples twice",
}
PROGRAMS = {
    name: inspect.getsource(getattr(runs, f"run_{name.lower()}")) for name in "ABCD"
} | {"E": Path(__file__).with_name("clinic.py").read_text(encoding="utf-8")}
# the right cause of each fault
FAULTS = {
    "A": ["late layer"],
    "B": ["same draws"],
    "C": ["early clipping"],
    "D": ["own decision"],
    "E": ["module", "overlap", "unequal counts", "padding"],
}
MOST = 20  # entries for one program
_LONGEST = 10_000  # characters of a program that was mended
_FORM = 3  # a cause, the old text, the new one


class Unfit(Exception):
    """Cures that cannot be applied: the name of the sentence, and what it tells."""

    def __init__(self, section: str, **fill):
        super().__init__(section)
        self.section, self.fill = section, fill


def mended(cures, run: str) -> str:
    """Return the program `run` with the changes that plain data of an answer asks for.

    Errors: `Unfit`, if they are of another form or do not fit the program.
    """
    text = PROGRAMS[run]
    for number, (_, old, new) in enumerate(entries(cures, run), start=1):
        count = text.count(old) if old else 0
        if count != 1:
            raise Unfit("not once", number=number, count=count, old=old)
        text = text.replace(old, new)
        if len(text) > _LONGEST:
            raise Unfit("too long", number=number, most=_LONGEST)
    return text


def entries(cures, run: str) -> list:
    """Return the entries of a program, each a cause, an old text and a new one.

    Errors: `Unfit` for another form, a missing program or an unknown cause.
    """
    if not isinstance(cures, dict):
        raise Unfit("no dict", found=cures)
    own = cures.get(run)
    if not isinstance(own, list | tuple):
        raise Unfit("no list", found=own) if run in cures else Unfit("no cure")
    if not own:
        raise Unfit("no cure")
    if len(own) > MOST:
        raise Unfit("too many", count=len(own), most=MOST)
    for number, entry in enumerate(own, start=1):
        whole = isinstance(entry, list | tuple) and len(entry) == _FORM
        if not whole or not all(isinstance(part, str) for part in entry):
            raise Unfit("no entry", number=number, found=entry)
        if entry[0] not in CAUSES:
            raise Unfit("no such cause", number=number, found=entry[0])
    return list(own)


def file_of(run: str) -> str:
    """Return the file name that stands in messages on a program."""
    return "clinic.py" if run == "E" else f"run_{run.lower()}.py"
