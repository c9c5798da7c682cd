"""Exercise 4.8, decided: a training that goes on after a kill or on a full disk."""

import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import apart, refuse_weights, state_of
from course_lib.exercises.e4_8.observe import EVERY, FaultyTraining, network
from course_lib.exercises.exercise import Case
from course_lib.exercises.file_states import kept
from course_lib.exercises.texts import Texts
from course_lib.text import many

_TEXTS = Texts("4.8")
_MOMENTS = 8  # of a save, each before another launch
_SPARE = 4  # passes that are no steps, such as two before the first one
_BATCH = 64  # samples of a step, all ranks together
_KILLS = ("SIGKILL", "SIGXFSZ")
# what a write raises where no room is left; of DCP it ends no `except Exception`
_FULL = ("OSError", "RuntimeError", "CheckpointException")
# what a restart raises: words of it, and the name of the hint
_RAISED = {
    "left over": ("FileExistsError", "Directory not empty"),
    "half written": (
        *("EOFError", "UnpicklingError", "BadZipFile", "JSONDecode"),
        *("PytorchStream", "ended in the middle"),
    ),
    "file missing": ("FileNotFoundError", "NotADirectory", "IsADirectory"),
}


def cases(seed: int) -> Iterator[Case]:
    """Yield launches: whole trainings, and those that are killed and started again.

    Expected are how many steps a training has, how many of them are saved at least when
    it begins, and `whole`: what a launch without a fault has given, once it is judged.
    """
    numbers = random.Random(seed)
    count, die = 200, 11
    if seed:  # the last batch is a small one, and the kill in the middle of an epoch
        count = numbers.choice([n for n in range(134, 250) if n % _BATCH > 8])
    per_epoch = -(-count // _BATCH)
    if seed:
        die = numbers.choice([n for n in (10, 11, 13) if n % per_epoch])
    images, labels = baseline.samples(count)
    data = (images + 1) / 17, labels  # no zeros but those of dropout
    epochs = 16 // per_epoch
    shared = {"data": data, "epochs": epochs, "seed": seed, "faults": {}}
    with tempfile.TemporaryDirectory(prefix="course_lib") as parent:
        given = _Given(shared, Path(parent), per_epoch * epochs)
        yield from _whole(given, 2, dropout=0.0)
        yield from _killed(given, die)
        yield from _other_ranks(given)
        yield from _full_disk(given)
        yield from _in_each_moment(given)


class _Given:
    """What all launches are given, and a folder for each chain of them."""

    def __init__(self, shared, parent, total):
        self.shared, self.parent, self.total = shared, parent, total
        self.expected = {}

    def folder(self, name, dropout):
        """Begin a chain of launches: an empty folder, and nothing known."""
        self.shared |= {"folder": str(self.parent / name), "dropout": dropout}
        Path(self.shared["folder"]).mkdir()
        if dropout:
            self.expected = {"whole": {}}

    def case(self, ranks, told, *, saved=0, faults=None, **more):
        """One launch of the chain; `told` is what has happened before it, or will."""
        given = self.shared | {"faults": faults or {}, "told": told} | more
        expected = self.expected | {"total": self.total, "saved": saved}
        return Case(given, ranks, expected=expected)


def _whole(given, ranks, *, dropout):
    """A launch without a fault, in a folder of its own; without dropout as one rank."""
    given.folder(f"whole-{ranks}-{dropout}", dropout)
    if not dropout:
        given.expected = {"alone": _alone(given.shared)}
    case = given.case(ranks, "never killed")
    case.expected["first"] = True
    yield case


def _killed(given, die):
    yield from _whole(given, 2, dropout=0.25)
    whole = given.expected
    given.folder("killed", 0.25)
    given.expected, told = whole, f"killed in step {die + 1}"
    yield given.case(2, told, faults={"die": die})
    yield given.case(2, told, saved=die - EVERY)


def _other_ranks(given):
    """Two ranks begin, three go on, and one ends it."""
    given.folder("ranks", 0.0)
    given.expected = {"alone": _alone(given.shared)}
    told = "killed, started again with 3 ranks, and then with 1"
    yield given.case(2, told, faults={"die": 7})
    yield given.case(3, told, faults={"die": 4})
    yield given.case(1, told, saved=7 - EVERY + 4 - EVERY)


def _full_disk(given):
    """First for rank 2 alone, then for rank 0; then a save is ended half-way."""
    yield from _whole(given, 3, dropout=0.25)
    whole = given.expected
    given.folder("full", 0.25)
    given.expected, told = whole, "on a full disk"
    faults = {"full": (EVERY + 1, 2 * EVERY), "die": 2 * EVERY + 1}
    yield given.case(3, told, faults=faults, **{"full ranks": [2]})
    faults = {"full": (1, EVERY), "dying": 2 * EVERY + 1}
    yield given.case(3, told, saved=1, faults=faults, **{"full ranks": [0]})
    yield given.case(3, "killed in a save", saved=1 + 1 + EVERY)


def _in_each_moment(given):
    """One rank that notes its folder, then a launch from each state that it had."""
    record = given.parent / "record" / "moments.json"
    record.parent.mkdir()
    images, labels = given.shared["data"]
    given.shared |= {"data": (images[:150], labels[:150]), "epochs": 3}
    given.total = 3 * EVERY
    for case in _whole(given, 1, dropout=0.25):
        case.given["record"] = str(record)
        yield case
    chosen = {}
    for moment in kept(record):
        late = moment.done >= EVERY and moment.part != "saved"
        if late or not any(key[0] for key in chosen):
            chosen[late, moment.part, re.sub(r"\d+", "", moment.path)] = moment
    for moment in list(chosen.values())[-_MOMENTS:]:
        more = {"state": moment.state, "part": moment.part, "path": moment.path}
        yield given.case(1, "killed in a save", saved=moment.done, **more)


def _alone(given):
    """The steps and weights of one process that nobody kills, without dropout."""
    model, (images, labels) = network(0.0, given["seed"]), given["data"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    epochs = baseline.batches((images, labels), batch=_BATCH, epochs=given["epochs"])
    with FaultyTraining(model) as training:
        for x, y in epochs:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
    return {"weights": model.state_dict(), "steps": [training.steps]}


def judge(case: Case, seen) -> str:
    """Compare how many steps were taken, where they went on, and the weights."""
    told, total = case.given["told"], case.expected["total"]
    first = "first" in case.expected
    if "die" in case.given["faults"]:
        raise _TEXTS.wrong("too short", found=min(_counts(seen)), **_where(case))
    if not case.given["faults"]:
        _refuse_position(case, seen)
        most = total - case.expected["saved"]
        least = total if first else 0
        facts = [("too few steps", _counts(seen), total, least, total)]
        facts += [("too many steps", _counts(seen), most, 0, most)]
        _TEXTS.refuse(facts, **_where(case))
        passes = [one["passes"] - len(one["steps"]) for one in seen]
        _TEXTS.refuse([("passes", passes, 0, 0, _SPARE)], **_where(case))
        _refuse_weights(case, seen)
        _refuse_beside(seen)
    return f"{many(case.world_size, 'rank')} {told}"


def _counts(seen):
    return [len(one["steps"]) for one in seen]


def _where(case):
    return {"told": case.given["told"], "total": case.expected["total"]}


def _known(case):
    """The steps of each rank without a fault; of one process where no others are."""
    known = case.expected.get("alone") or case.expected["whole"]
    return known.get("steps", [])


def _refuse_position(case, seen):
    """Refuse a start with the weights of one step and the batch of another."""
    known, where = _known(case), {"ranks": len(seen), **_where(case)}
    if len(known) != len(seen):
        return
    for rank, (one, steps) in enumerate(zip(seen, known)):
        if not one["steps"]:
            continue
        weights, batch = (
            _place(steps, name, one["steps"][0][name]) for name in ("weights", "batch")
        )
        if batch is not None and weights is not None and weights != batch:
            why = (
                "again" if batch < weights else "left out" if weights else "no weights"
            )
            fill = {"weights": weights, "batch": batch + 1, "rank": rank, **where}
            raise _TEXTS.wrong("position", why=why, clue=[weights, batch], **fill)


def _place(steps, name, value):
    """The first step that has this value; None if no step has it."""
    return next((n for n, row in enumerate(steps) if row[name] == value), None)


def _refuse_weights(case, seen):
    """Refuse other weights than without a kill: bit for bit on as many ranks."""
    returned = [one["returned"] for one in seen]
    if alone := case.expected.get("alone"):
        why = "plain" if "first" in case.expected else "other ranks"
        refuse_weights(returned, alone["weights"], hint=_TEXTS.hint(why))
        return
    whole = case.expected["whole"]
    states = [state_of(one) for one in returned]
    if "first" in case.expected:
        _refuse_masks(case, seen)
        right = network(0.0, 0).state_dict()
        right = states[0] if apart(right, states[0]) else right
        refuse_weights(returned, right, hint=_TEXTS.hint("plain"))
        whole |= {"steps": [one["steps"] for one in seen], "weights": states}
        return
    for state, right in zip(states, whole["weights"]):
        if isinstance(state, str) or not _same(state, right):
            raise _first_other(case, seen)


def _same(state, right):
    """Bit for bit; a tensor of another type is another one."""
    return state.keys() == right.keys() and all(
        state[name].dtype == right[name].dtype and torch.equal(state[name], right[name])
        for name in right
    )


def _refuse_masks(case, seen):
    """Refuse dropout that is off, or the same on two ranks or in two steps."""
    masks = [row["mask"] for one in seen for row in one["steps"]]
    if len(set(masks)) < len(masks):
        raise _TEXTS.wrong("masks", found=len(set(masks)), right=len(masks))


def _first_other(case, seen):
    """The `Wrong` of the first step that begins otherwise than without a kill."""
    whole, total = case.expected["whole"]["steps"], case.expected["total"]
    pairs = [
        list(zip(one["steps"], steps[total - len(one["steps"]) :]))
        for one, steps in zip(seen, whole)
    ]
    where = {"ranks": len(seen), **_where(case)}
    for number in range(max(map(len, pairs))):
        rows = [pair[number] for pair in pairs if number < len(pair)]
        for name in ("batch", "weights", "rate", "momentum", "mask"):
            other = [row[name] != right[name] for row, right in rows]
            if True in other:
                rank = other.index(True)
                found, right = (row[name] for row in rows[rank])
                left = total - len(pairs[rank]) + number + 1
                why = "others" if rank and name in ("momentum", "mask") else name
                clue = {"name": name, "number": number, "other": other}
                fill = {"rank": rank, "step": left, "found": found, "right": right}
                section = "rate" if name == "rate" else "other step"
                fill["what"] = _TEXTS.hint(f"what {name}")
                return _TEXTS.wrong(section, why=why, clue=clue, **fill, **where)
    return _TEXTS.wrong("other weights", **where)


def _refuse_beside(seen):
    """Refuse a group that is not left, and a file that several ranks write."""
    _TEXTS.refuse([("not left", [int(not one["left"]) for one in seen], 0, 0, 0)])
    names = [name for one in seen for name in one["files"]]
    for name in names:
        if names.count(name) > 1:
            raise _TEXTS.wrong("same file", name=name)


def failed(case: Case, wrong: Failed) -> str:
    """Go on if the check itself has killed the ranks; else say what was to be read."""
    error, faults = wrong.error, case.given["faults"]
    said = f"{error.kind} {error}"
    deadly = "die" in faults or "dying" in faults
    if deadly and error.kind == "killed" and any(name in said for name in _KILLS):
        return f"{many(case.world_size, 'rank')} {case.given['told']}"
    raised = (
        name for name, all in _RAISED.items() if any(words in said for words in all)
    )
    why = next(raised, "")
    if error.kind in (*STUCK, "lost"):
        why = "full and waiting" if "full" in faults else "other steps"
    elif "full" in faults and error.kind in _FULL:
        why = "full"
    elif why == "file missing" and "first" in case.expected:
        why = "no file"
    elif not why and case.given["told"].startswith("killed, started again with"):
        why = "new rank"
    if why:
        fill = {"path": case.given.get("path", ""), "ranks": case.world_size}
        wrong.hint = _TEXTS.hint(why, **fill)
    raise wrong
