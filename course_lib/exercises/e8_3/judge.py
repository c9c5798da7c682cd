"""Exercise 8.3, decided: a training that goes on after a rank was killed."""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import refuse_weights
from course_lib.exercises.e8_3.observe import EVERY
from course_lib.exercises.exercise import Case
from course_lib.exercises.file_states import kept
from course_lib.exercises.texts import Texts
from course_lib.text import many

_TEXTS = Texts("8.3")
_WHOLE = 7  # steps of the training that nobody kills
_STEPS = 11  # of the training whose folder is looked at in each moment
_MOMENTS = 40
_SHARE = 32  # samples of a rank in a step
_KILLS = ("SIGKILL", "SIGXFSZ")
# what loading half a file raises
_HALF = ("EOFError", "UnpicklingError", "BadZipFile", "JSONDecode", "PytorchStream")
# what making or moving raises where a file or a folder is already
_IN_THE_WAY = ("FileExistsError", "Directory not empty")


def cases(seed: int) -> Iterator[Case]:
    """Yield launches with a folder: one that nobody kills, which must be right already;
    then killed in two steps; as files change; in two saves.

    Then one rank alone goes on from each state that the folder has had while it saved.
    Expected are the weights of one process, and how many steps are left at most.
    """
    numbers = random.Random(seed)
    sizes = (2, 22, 13), (2, 12, 10), (3, 14, 10)
    if seed:
        steps = numbers.randint(21, 23)  # the last launch saves once, too
        last = numbers.randint(12, 14)
        sizes = (3, steps, numbers.randint(11, 15)), (2, last, 10), (2, last, 10)
    with tempfile.TemporaryDirectory(prefix="course_lib") as parent:
        for number, (ranks, steps, at) in enumerate(sizes):
            given = {"data": baseline.samples(200 + 9 * seed), "seed": seed}
            folder = Path(parent) / str(number)
            given |= {"steps": steps, "folder": str(folder)}
            words, launches = _FAULTS[number]
            given["killed"] = words.format(at)
            folder.mkdir()
            if not number:
                yield _whole(given, ranks, Path(parent) / "whole")
            weights = _weights(given, ranks)
            for number, (kill, killed, done) in enumerate(launches(ranks, at)):
                expected = {"weights": weights, "done": done, "first": not number}
                case = given | {"kill": kill, "ranks": killed}
                yield Case(case, ranks, expected=expected)
        yield from _in_each_state(given, Path(parent))


def _whole(given, ranks, folder):
    """A launch without a kill; of a proof it is no part of its own."""
    folder.mkdir()
    given = given | {"steps": _WHOLE, "folder": str(folder), "kill": {}, "ranks": []}
    expected = {"weights": _weights(given, ranks), "first": True, "whole": True}
    return Case(given, ranks, expected=expected)


def _in_each_state(given, parent):
    """Launches of one rank: one that notes its folder, one from each state of that.

    A kill in that moment leaves what the folder holds then, whatever wrote it.
    """
    folder, record = parent / "states", parent / "record" / "moments.json"
    given |= {"steps": _STEPS, "folder": str(folder), "kill": {}, "ranks": []}
    given["killed"] = "in each moment of two saves"
    weights = _weights(given, 1)
    record.parent.mkdir()
    folder.mkdir()
    expected = {"weights": weights, "done": 0, "first": True}
    yield Case(given | {"record": str(record)}, 1, expected=expected)
    for moment in kept(record)[:_MOMENTS]:
        expected = {"weights": weights, "done": moment.done, "first": False}
        where = {"path": moment.path, "part": moment.part}
        yield Case(given | {"state": moment.state} | where, 1, expected=expected)


def _in_steps(ranks, at):
    """The faults of each launch, in which ranks, and how many steps are saved."""
    saved = (at - 1) // EVERY * EVERY
    yield {"at": at}, [ranks - 1], 0
    # so that of two files in turn each is once the newer one
    yield {"at": EVERY + 1}, [0], saved
    yield {}, [], saved + EVERY


def _between_files(ranks, at):
    yield {"moving": at}, [0], 0
    yield {}, [], at - EVERY


def _in_saves(ranks, at):
    yield {"saving": at}, [0], 0
    yield {"saving": EVERY}, list(range(ranks)), at - EVERY
    yield {}, [], at - EVERY


_FAULTS = (
    ("in step {0} and six steps later", _in_steps),
    ("after a file was removed or renamed", _between_files),
    ("while they saved", _in_saves),
)


def _weights(given, ranks):
    """The weights after a training without a stop, in one process."""
    images, labels = given["data"]
    model = baseline.network(given["seed"])
    optimizer = torch.optim.SGD(model.parameters(), lr=baseline.RATE, momentum=0.9)
    with baseline.seeded(0):
        for _ in range(given["steps"]):
            batch = torch.randperm(len(images))[: _SHARE * ranks]
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return model.state_dict()


def judge(case: Case, seen) -> str:
    """Compare how many steps it took, the weights, then what was saved and when."""
    if "whole" in case.expected:
        return _judge_whole(case, seen)
    steps, done = case.given["steps"], case.expected["done"]
    passes = [one["passes"] for one in seen]
    _refuse_elsewhere(case, seen, min(passes))
    most = steps - done
    facts = [("too many steps", passes, most, 0, most)]
    if wrong := _TEXTS.differing(facts, steps=steps, done=done):
        files = max(len(one["files"]) for one in seen)
        wrong.clue = {"passes": passes, "saves": _saves(seen), "files": files}
        if "part" in case.given:
            wrong.hint = _moment(case)
        elif "file" in case.given["killed"]:
            wrong.hint = _TEXTS.hint("between files")
        elif "saved" in case.given["killed"]:
            wrong.hint = _TEXTS.hint("in a save")
    hint = wrong.hint if wrong else _TEXTS.hint("state")
    returned, also = [one["returned"] for one in seen], {"passes": passes}
    refuse_weights(returned, case.expected["weights"], hint=hint, also=also)
    if wrong:
        raise wrong
    _TEXTS.refuse([("not left", [int(not one["left"]) for one in seen], 0, 0, 0)])
    _refuse_saves(seen, steps)
    return _words(case)


def _judge_whole(case, seen):
    """Compare the weights without a stop; the launches after it decide all else."""
    if all(one["passes"] == case.given["steps"] for one in seen):
        returned = [one["returned"] for one in seen]
        hint = _TEXTS.hint("without a stop")
        refuse_weights(returned, case.expected["weights"], hint=hint)
    return _words(case)


def _refuse_elsewhere(case, seen, passes):
    """Refuse who takes fewer steps than all, with an empty folder."""
    steps = case.given["steps"]
    empty = "state" not in case.given and not any(one["found"] for one in seen)
    if empty and passes < steps:
        raise _TEXTS.wrong("elsewhere", clue={"passes": passes}, found=passes, of=steps)


def _moment(case):
    """The hint about what the folder held when one rank alone was started again."""
    name = os.path.basename(case.given["path"])
    return _TEXTS.hint(case.given["part"], name=name)


def _saves(seen):
    """After how many steps since the start some rank has saved."""
    return sorted({passes for one in seen for passes in one["saves"]})


def _refuse_saves(seen, steps):
    """Refuse files that are written after other steps, or by several ranks."""
    for rank, one in enumerate(seen):
        first = steps - one["passes"]
        for step in (first + passes for passes in one["saves"] if passes):
            if step % EVERY and step != steps:
                where = {"rank": rank, "ranks": len(seen), "step": step}
                raise _TEXTS.wrong("saved often", clue={"saves": one["saves"]}, **where)
    names = [name for one in seen for name in one["files"]]
    for name in names:
        if names.count(name) > 1:
            raise _TEXTS.wrong("same file", clue={"same": True}, name=name)


def _words(case):
    return f"{many(case.world_size, 'rank')} killed {case.given['killed']}"


def failed(case: Case, wrong: Failed) -> str:
    """Go on if the check itself has killed this rank; else say what was to be read."""
    error, said = wrong.error, f"{wrong.error.kind} {wrong.error}"
    signals = [name for name in _KILLS if name in said]
    if error.kind == "killed" and signals and error.rank in case.given["ranks"]:
        return _words(case)
    signs = {
        "left over": any(name in said for name in _IN_THE_WAY),
        "half written": any(name in said for name in _HALF),
        "one file": "->" in said.partition("\n")[0],  # a name that is moved
        "no file": error.kind == "FileNotFoundError" and case.expected["first"],
        "file missing": error.kind == "FileNotFoundError",
        "other steps": error.kind in (*STUCK, "lost"),
    }
    name = next(filter(signs.get, signs), None)
    if "part" in case.given and name != "left over":
        wrong.hint = _moment(case)
    elif name:
        wrong.hint = _TEXTS.hint(name)
    raise wrong
