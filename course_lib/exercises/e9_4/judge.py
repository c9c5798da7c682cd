"""Exercise 9.4, decided: saved on n ranks, gone on with on m."""

import tempfile
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.compare import apart, gap
from course_lib.exercises.e9_4.network import COUNT, share
from course_lib.exercises.e9_4.reference import before_steps, mistakes
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import many, short, size

_TEXTS = Texts("9.4")
_STEPS = 3  # of each call
_BATCH = 24  # samples of all ranks together
# ranks of each call: as many again, fewer, more or fewer; after fewer, files of the
# save before may still be there
_CHAINS = (3, 3, 1, 2), (2, 2, 1, 3), (3, 3, 2, 1)
_SCALE = 5  # of pixels: so the norm of gradients is above 1, at which many clip
_NEAR = 3e-5  # sums in another order leave 3e-6, mistakes 9e-5 and more
_KINDS = 3  # of numbers: weights and two moments
_MOST = 1.5  # shares of a rank in one file: formats need room, too
# words of what a later call raises, and the name of the hint
_RAISED = {
    "mixed torch.Tensor and DTensor": "plain into shards",
    "size mismatch for": "share into whole",
    "Missing key in checkpoint": "missing",
    "must match the size": "other share",
    "FileNotFoundError": "other share",
    "IndexError": "no rows",
}
# of one that goes on with other ranks
_OTHER_RANKS = ("must match", "size mismatch", "different meshes", "FileNotFoundError")
_NO_FILE = ("FileNotFoundError", "CheckpointException", "EOFError", "StopIteration")


def cases(seed: int) -> Iterator[Case]:
    """Yield calls with one folder, on as many ranks as before and on others.

    Expected is the training in one process, before the call and after it, and on how
    many ranks the calls before were.
    """
    chain, training = _CHAINS[seed % len(_CHAINS)], before_steps(seed)
    every = _BATCH * _STEPS
    images, labels = baseline.samples(every * len(chain) + seed)
    images *= _SCALE
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        for number, ranks in enumerate(chain):
            own = slice(number * every + seed, (number + 1) * every + seed)
            batches = list(zip(images[own].split(_BATCH), labels[own].split(_BATCH)))
            given = {"seed": seed, "batches": batches, "folder": folder}
            expected = {"before": training if number else None, "ranks": chain[:number]}
            training = training.trained(batches)
            yield Case(given, ranks, expected=expected | {"after": training})


def judge(case: Case, seen) -> str:
    """Look at what ranks hold, then at the state after the call, then at the files."""
    ranks, where = case.world_size, _where(case)
    held, part = [one["held"] for one in seen], share(ranks)
    _TEXTS.refuse([("held", held, part, 0, int(_MOST * part))], whole=share(1))
    for rank, one in enumerate(seen):
        _refuse_state(case, one, where | {"rank": rank, "ranks": ranks})
    files, most = seen[0]["files"], _MOST * _KINDS * part
    if not files:
        raise _TEXTS.wrong("no files", **where)
    name = max(files, key=files.get)
    if files[name] > most:
        fill = {"name": name, "found": size(files[name]), "most": size(most)}
        raise _TEXTS.wrong("large file", **fill, **where)
    before = case.expected["ranks"]
    return f"from {before[-1]} to {ranks}" if before else f"on {many(ranks, 'rank')}"


def _where(case):
    """Which call it is, as sentences tell it."""
    before, ranks = case.expected["ranks"], many(case.world_size, "rank")
    told = f"after a save on {before[-1]}" if before else "with an empty folder"
    return {"told": f"call {len(before) + 1}, on {ranks} {told}"}


def _refuse_state(case, one, where):
    """Refuse other weights, or another count of passes, than one process has."""
    right = case.expected["after"].weights
    found = {n: part for n, part in one["weights"].items() if torch.is_tensor(part)}
    if not apart(found, right):
        raise _TEXTS.wrong("other state", found=short(one["weights"]), **where)
    if (off := _gap(found, right)) > _NEAR:
        why, told = _why(case, one)
        fill = where | told | {"off": f"{off:.2g}", "near": f"{_NEAR:g}"}
        clue = {"apart": apart(found, right)}
        raise _TEXTS.wrong("weights", why=why, clue=clue, **fill)
    counts = found[COUNT].item(), right[COUNT].item()
    if counts[0] != counts[1]:
        fill = dict(zip(("found", "right"), counts))
        raise _TEXTS.wrong("buffer", **fill, **where)


def _gap(found, right):
    """The largest difference of two states, but for their count of passes."""
    return gap(found | {COUNT: right[COUNT]}, right)


def _why(case, one):
    """The name of the hint for other weights, and what it tells."""
    before, given = case.expected["before"], case.given
    total, whole = sum(one["files"].values()), _KINDS * share(1)
    told = {"saved": size(total), "whole": size(whole)}
    known = mistakes(before_steps(given["seed"]), before, given["batches"])
    for name, weights in known.items():
        if _gap(one["weights"], weights) <= _NEAR:
            lost = name == "no state" and total < whole / 2
            return "state not saved" if lost else name, told
    if before is None:
        return "first", told
    why, ranks = _why_other_ranks(case)
    return why or "same ranks", told | ranks


def _why_other_ranks(case):
    """The name of the hint if other ranks have saved, else "", and what it tells."""
    ranks = case.expected["ranks"]
    told = {"saving": many(ranks[-1], "rank"), "reading": many(case.world_size, "rank")}
    if max(ranks) > ranks[-1]:
        return "left over", told
    return "other ranks" if ranks[-1] != case.world_size else "", told


def failed(case: Case, wrong: Failed) -> str:
    """Raise what a launch failed with, and a hint if it is known where that is from."""
    why, told = _why_failed(case, wrong.error)
    if why:
        wrong.hint = _TEXTS.hint(why, **told)
    if wrong.error.kind == "CheckpointException":  # it quotes a stack of PyTorch's
        lines = list(wrong.lines)
        wrong.lines = lines[lines.index("") :] if "" in lines else lines
    raise wrong


def _why_failed(case, error):
    """The name of the hint for an error, "" if there is none, and what it tells."""
    said = f"{error.kind} {error}"
    if error.kind in ("stalled", "lost"):
        return "waits", {}
    if case.expected["before"] is None:
        signs = {
            "no file": any(words in said for words in _NO_FILE),
            "untrained": error.kind == "KeyError",
        }
        return next(filter(signs.get, signs), ""), {}
    why, told = _why_other_ranks(case)
    if why and any(words in said for words in _OTHER_RANKS):
        return why, told
    return next((name for words, name in _RAISED.items() if words in said), ""), {}
