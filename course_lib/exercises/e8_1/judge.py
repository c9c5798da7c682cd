"""Exercise 8.1, decided: rank, world size and local rank under any launcher."""

import random
from collections.abc import Iterator

from course_lib.clusters.environments import LAUNCHERS, recorded
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many

_TEXTS = Texts("8.1")
_ROWS = {row.launcher: row for row in LAUNCHERS}
_NUMBERS = ("rank", "world_size", "local_rank")
# the inner launcher, and the one that started it
_DRAWN = (
    *(("torchrun", "Open MPI"), ("torchrun", "MPICH"), ("torchrun", "Slurm")),
    *(("Open MPI", "Slurm"), ("Open MPI", "MPICH"), ("MPICH", "Slurm"), ("jsrun", "")),
    ("Slurm", ""),
)
# what is easily taken for the number of all ranks
_JOB_SIZES = ("SLURM_NTASKS", "SLURM_NPROCS", "OMPI_UNIVERSE_SIZE")


def cases(seed: int) -> Iterator[Case]:
    """Yield twenty environments and ten drawn ones; expected are names and numbers."""
    rows = []
    for entry in recorded():
        right = entry["expected"]
        if right != "error":
            right = tuple(right[name] for name in _NUMBERS)
        rows.append((entry["name"], entry["env"], right))
    rows += _drawn(random.Random(seed + 8))
    yield Case({"environments": [env for _, env, _ in rows]}, expected=rows)


def _drawn(numbers):
    """Launchers within each other, then one that misses a variable, then none."""
    for inner, outer in _DRAWN:
        nodes, ranks = numbers.randint(2, 5), numbers.randint(3, 8)
        node, local = numbers.randrange(nodes), numbers.randrange(1, ranks)
        # dealt in turn: the local rank is no remainder of the rank
        right = local * nodes + node, nodes * ranks, local
        env = dict(zip(_ROWS[inner][1:4], map(str, right)))
        if inner == "torchrun":
            env |= {"LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": str(node)}
        name = f"{inner} with {right[1]} ranks"
        if outer:
            agents = (str(node), str(nodes), "0")
            env |= dict(zip(_ROWS[outer][1:4], agents))
            name += f", started by {outer}"
        yield name, env, right
    row = _ROWS["Open MPI"]
    lost = {row.rank: "2", row.local_rank: str(numbers.randrange(2)), "PMI_SIZE": "4"}
    lost |= dict(zip(_ROWS["Slurm"][1:4], ("1", "2", "0")))
    yield "Open MPI without OMPI_COMM_WORLD_SIZE, started by Slurm", lost, "error"
    yield "no launcher", {"HOME": "/home/ada", "SLURM_JOB_ID": "7"}, "error"


def judge(case: Case, seen) -> str:
    """Compare numbers and errors, environment by environment."""
    [rank] = seen
    clue = {
        str(number): answer["raised"].partition(":")[0] or shown(answer["returned"])
        for number, answer in enumerate(rank["answers"])
    }
    for (name, env, right), answer in zip(case.expected, rank["answers"]):
        fill = {"name": name, "returned": shown(answer["returned"]), "expected": right}
        fill |= {"raised": answer["raised"]}
        if right == "error":
            if not answer["raised"]:
                raise _TEXTS.wrong("not refused", why=_accepted(env), clue=clue, **fill)
            if not answer["refused"]:
                raise _TEXTS.wrong("other error", clue=clue, **fill)
        elif answer["raised"]:
            half = "PMI_RANK" in env and "MPI_LOCALRANKID" not in env
            why = "PMI" if half else "raised"
            raise _TEXTS.wrong("refused", why=why, clue=clue, **fill)
        elif not _same(answer["returned"], right):
            why = _why(answer["returned"], env, right)
            raise _TEXTS.wrong("other numbers", why=why, clue=clue, **fill)
    return many(len(case.expected), "environment")


def _same(found, right):
    """Whether these are three whole numbers, and the right ones."""
    if not isinstance(found, list | tuple) or len(found) != 3:
        return False
    return all(type(one) is int for one in found) and tuple(found) == right


def _accepted(env):
    """The name of the hint where there is no rank, but an answer."""
    if "OMPI_COMM_WORLD_RANK" in env:
        return "missing"
    return "batch script" if "SLURM_LOCALID" in env else "nobody"


def _why(found, env, right):
    """The name of the hint for three numbers that are not the right ones."""
    if not isinstance(found, list | tuple) or len(found) != 3:
        return "three"
    if any(type(one) is not int for one in found):
        return "text"
    if sorted(map(repr, found)) == sorted(map(repr, right)):
        return "order"
    rows = [[env.get(name) for name in row[1:4]] for row in LAUNCHERS]
    if tuple(found) == (0, 1, 0) and ["0", "1", "0"] not in rows:
        return "own"
    if [str(one) for one in found] in rows:
        return "outer"
    if found[1] != right[1] and str(found[1]) in map(env.get, _JOB_SIZES):
        return "size of the job"
    return "local rank" if tuple(found[:2]) == right[:2] else "mixed"
