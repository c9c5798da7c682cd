"""Exercise 4.8: launches of a training, with faults, in folders of their own."""

import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.e4_8.observe import EVERY, FaultyTraining, network
from course_lib.exercises.exercise import Case
from course_lib.exercises.file_states import kept
from course_lib.text import listed

_MOMENTS = 6  # of a save, each before another launch
_BATCH = 64  # samples of a step, all ranks together
_FULL = EVERY + 1, 2 * EVERY  # after these steps the disk is full; one save is due


def launches(seed: int) -> Iterator[Case]:
    """Yield launches: whole trainings, and those that are killed and started again.

    Expected are how many steps a training has, how many of them are saved at least when
    it begins, and `whole`: what a launch without a fault has given, once it is judged.
    """
    count, late = _drawn(random.Random(seed)) if seed else (300, 14)
    per_epoch = -(-count // _BATCH)
    images, labels = baseline.samples(count)
    data = (images + 1) / 17, labels  # no zeros but those of dropout
    epochs = 16 // per_epoch
    shared = {"data": data, "epochs": epochs, "seed": seed, "faults": {}}
    with tempfile.TemporaryDirectory(prefix="course_lib") as parent:
        given = _LaunchFolder(shared, Path(parent), per_epoch * epochs)
        yield from _killed(given, (12, late))
        yield from _other_ranks(given)
        yield from _full_disk(given)
        yield from _torn(given)
        yield from _in_each_moment(given)


def _drawn(numbers):
    """How many samples, and after how many steps ranks are killed late."""
    # five steps in an epoch; the last one is smaller, and none of its shares is empty
    return numbers.randrange(4 * _BATCH + 9, 315), numbers.choice((13, 14))


class _LaunchFolder:
    """What all launches are given, and a folder for each chain of them."""

    def __init__(self, shared, parent, total):
        self.shared, self.parent, self.total = shared, parent, total
        self.expected, self.proof = {}, ""

    def begin(self, name, dropout, proof):
        """Begin a chain of launches with an empty folder; `proof` says what it is."""
        self.shared |= {"folder": str(self.parent / name), "dropout": dropout}
        Path(self.shared["folder"]).mkdir()
        self.proof = proof

    def case(self, ranks, told, *, saved=0, faults=None, **more):
        """One launch of the chain; `told` is what has happened before it, or will."""
        given = self.shared | {"faults": faults or {}, "told": told} | more
        expected = {"total": self.total, "saved": saved, "proof": self.proof}
        return Case(given, ranks, expected=self.expected | expected)

    def whole(self, ranks, **more):
        """A launch without a fault, from an empty folder; with dropout it is known."""
        if self.shared["dropout"]:
            self.expected = {"whole": {}}
        case = self.case(ranks, "never killed", **more)
        case.expected["first"] = True
        return case


def _killed(given, dies):
    """Two ranks without a fault, without dropout and with it; then killed.

    After 12 steps a save of the third step in each epoch is too old, after 13 and 14
    the file of step 9, which comes last where numbers are sorted as texts.
    """
    numbers = listed(die + 1 for die in dies)
    given.begin("alone", 0.0, f"2 ranks killed in steps {numbers} and at the end")
    given.expected = {"alone": _alone(given.shared)}
    yield given.whole(2)
    given.begin("whole-2", 0.25, given.proof)
    yield given.whole(2)
    for die in dies:
        told = f"killed in step {die + 1}"
        given.begin(f"killed-{die}", 0.25, given.proof)
        yield given.case(2, told, faults={"die": die})
        yield given.case(2, told, saved=die - EVERY)
    yield given.case(2, "killed at the end", saved=given.total - EVERY)


def _other_ranks(given):
    """Two ranks begin, of which one has a full disk; three go on, and one ends it."""
    given.begin("ranks", 0.0, "2 ranks that become 3, and then 1")
    given.expected = {"alone": _alone(given.shared)}
    faults, told = {"full": _FULL, "die": 2 * EVERY + 1}, "2 ranks, then 3, then 1"
    yield given.case(2, told, faults=faults, **{"full ranks": [1]})
    yield given.case(3, told, faults={"die": EVERY + 1})
    yield given.case(1, told, saved=1 + 1)


def _full_disk(given):
    """Three ranks, first with a full disk for rank 0, then killed in a save."""
    given.begin("whole-3", 0.25, "3 ranks with a full disk and killed in a save")
    yield given.whole(3)
    given.begin("full", 0.25, given.proof)
    faults, told = {"full": _FULL, "die": 3 * EVERY + 1}, "after a full disk"
    yield given.case(3, told, faults=faults, **{"full ranks": [0]})
    told = "after a full disk, and killed in a save"
    yield given.case(3, told, faults={"dying": 1})
    yield given.case(3, told, saved=2 * EVERY + 1)


def _torn(given):
    """Three ranks whose disk is full in a save, once on the first and once on the last
    rank. All are killed in the next save: the one before the full disk is left.
    """
    faults, told = {"full": _FULL, "dying": 2 * EVERY + 1}, "killed after a full disk"
    for rank in (0, 2):
        given.begin(
            f"torn-{rank}", 0.25, "3 ranks killed in the save after a full disk"
        )
        yield given.case(3, told, faults=faults, **{"full ranks": [rank]})
        yield given.case(3, told, saved=1, torn=True)


def _in_each_moment(given):
    """One rank that notes its folder, then a launch from each state that it had."""
    record = given.parent / "record" / "moments.json"
    record.parent.mkdir()
    images, labels = given.shared["data"]
    given.shared |= {"data": (images[:150], labels[:150]), "epochs": 3}
    given.total = 3 * EVERY
    given.begin("whole-1", 0.25, "1 rank killed in moments of a save")
    yield given.whole(1, record=str(record))
    chosen = {}
    for moment in (one for one in kept(record) if one.part != "saved"):
        late = moment.done >= EVERY
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
