"""What goes wrong when rank 0 evaluates and saves, and the hint for it."""

from pathlib import Path

from course_lib.exercises.attempt import STUCK
from course_lib.exercises.compare import near, own_lines

COUNT = 200  # samples
_HALF = ("EOFError", "OSError")  # what torch.load raises for half a file, beside others

SEND = (
    "Only rank 0 knows the number. Send it to the others: dist.broadcast of a tensor"
    " from rank 0, on the device of the model."
)
PLAIN = (
    "Save a state dict, not the model: a class that is pickled cannot be loaded where"
    " its code has moved."
)


def forward_mark(folder, rank):
    """The file that says that a rank has called the DDP model."""
    return Path(folder) / f"forward-{rank}"


def why_accuracy(found, good, *, where):
    """The hint for a rank with another accuracy than rank 0 should find."""
    rank, ranks = where
    if rank and not found:
        return SEND
    if found is None:
        return "All ranks return the share of right answers, a number from 0 to 1."
    if found == 0:
        return "A tensor of whole numbers cuts a share to 0. Make it of floats."
    if near(found, good / ranks, 1e-3):
        return (
            "An average with the zeros of the other ranks is too small. Take the number"
            " of rank 0 as it is: dist.broadcast."
        )
    if near(found, 100 * good, 0.1) or near(found, COUNT * good, 0.1):
        return "Return the share of right answers, from 0 to 1: right / all."
    return "Count the right answers over all samples of `data`, then divide by all."


def why_failed(folder, error):
    """The hint for ranks that failed or waited in vain, or None."""
    called = [r for r in range(3) if forward_mark(folder, r).exists()]
    if called == [0] and error.kind in (*STUCK, "lost"):
        return (
            "Only rank 0 called the DDP model, and that call is a collective: DDP"
            " first sends BatchNorm's statistics to all ranks. Evaluate"
            " model.module."
        )
    if error.kind in STUCK and len(own_lines(error)) > 1:
        return (
            "A line in which all ranks take part stands under `if rank == 0`, or"
            " the ranks come to such lines in another order."
        )
    if "PytorchStreamReader" in str(error) or error.kind in _HALF:
        return (
            f"The file is there, but rank {error.rank} reads it before rank 0 has"
            " written all of it. Neither its name nor a pause says that it is"
            " complete: let all wait in dist.barrier()."
        )
    if error.kind == "FileNotFoundError" and error.rank:
        return (
            f"Rank {error.rank} looks for the file before rank 0 has written it."
            " Let all wait between saving and loading: dist.barrier()."
        )
    if error.kind == "RuntimeError" and "module." in str(error):
        if 'Missing key(s) in state_dict: "module.' in str(error):
            return "The file has plain names: load it into model.module."
        return (
            "The file has the names of the DDP wrapper: save model.module.state_dict()."
        )
    if error.kind == "UnboundLocalError" and error.rank:
        return SEND
    return PLAIN if error.kind == "UnpicklingError" else None
