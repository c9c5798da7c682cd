"""Exercise 8.1, decided: rank, world size and local rank under any launcher."""

import itertools
import random
from collections.abc import Iterator

from course_lib.clusters.environments import LAUNCHERS, recorded
from course_lib.exercises.e8_1.observe import OWN
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many

_TEXTS = Texts("8.1")
_NUMBERS = ("rank", "world_size", "local_rank")
# what is easily taken for the number of all ranks
_JOB_SIZES = ("SLURM_NTASKS", "SLURM_NPROCS", "OMPI_UNIVERSE_SIZE")


def cases(seed: int) -> Iterator[Case]:
    """Yield twenty environments and drawn ones; expected are names and numbers."""
    rows = []
    for entry in recorded():
        right = entry["expected"]
        if right != "error":
            right = tuple(right[name] for name in _NUMBERS)
        rows.append((entry["name"], entry["env"], right))
    rows += _drawn(random.Random(seed + 8))
    yield Case({"environments": [env for _, env, _ in rows]}, expected=rows)


def _drawn(numbers):
    """Each launcher within each other, then some that miss a variable, then none."""
    for inner, outer in itertools.combinations(LAUNCHERS, 2):
        yield _nested(numbers, inner, outer, more_inside=True)
        yield _nested(numbers, inner, outer, more_inside=False)
    torchrun, _, open_mpi, _, slurm = LAUNCHERS
    name, env, right = _nested(numbers, torchrun, open_mpi, more_inside=True)
    env |= _variables(slurm, (1, 2, 0), 2)
    yield f"{name}, in a step of Slurm", env, right
    for inner, outer in itertools.pairwise(LAUNCHERS):
        _, env, _ = _nested(numbers, inner, outer, more_inside=True)
        for missing in inner[1:3]:
            left = {name: value for name, value in env.items() if name != missing}
            yield f"{inner[0]} without {missing}, with all of {outer[0]}", left, "error"
    for inner, outer in itertools.pairwise(LAUNCHERS):
        _, env, _ = _nested(numbers, inner, outer, more_inside=True)
        del env[inner.local_rank]
        right = tuple(int(env[name]) for name in outer[1:4])
        yield f"{outer[0]}, with {inner.rank} and {inner.world_size}, too", env, right
    for row in LAUNCHERS:
        env = _variables(row, _numbers(numbers, (2, 5), 8)[0], 8)
        del env[row.local_rank]
        yield f"{row.rank} and {row.world_size} alone", env, "error"
    yield "no launcher", {"HOME": "/home/ada", "SLURM_JOB_ID": "7"}, "error"


def _nested(numbers, inner, outer, *, more_inside):
    """One launcher started by another; no number is the same in both."""
    few, many_ranks = _numbers(numbers, (2, 3), 2), _numbers(numbers, (2, 5), 8)
    pairs = [(inner, many_ranks), (outer, few)]
    if not more_inside:  # then the other one comes first, too
        pairs = [(outer, many_ranks), (inner, few)]
    env = {}
    for row, (found, ranks) in pairs:
        env |= _variables(row, found, ranks)
    found = dict(pairs)[inner][0]
    other = dict(pairs)[outer][0]
    name = f"{inner[0]} with {found[1]} ranks, started by {outer[0]} with {other[1]}"
    return name, env, found


def _numbers(numbers, nodes, ranks):
    """The numbers of a rank, and how many a node has; dealt to the nodes in turn."""
    nodes = numbers.randint(*nodes)
    node, local = numbers.randrange(nodes), ranks // 2 + numbers.randrange(ranks // 2)
    # in turn: the local rank is no remainder of the rank
    return (local * nodes + node, nodes * ranks, local), ranks


def _variables(row, found, ranks):
    """What a launcher sets, with the number of ranks on a node if it tells that."""
    env = dict(zip(row[1:4], map(str, found)))
    if row.local_world_size:
        env[row.local_world_size] = str(ranks)
    return env


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
                fill |= dict(zip(("there", "local"), _half(env)))
                raise _TEXTS.wrong("not refused", why=_accepted(env), clue=clue, **fill)
            if not answer["refused"]:
                raise _TEXTS.wrong("other error", clue=clue, **fill)
        elif answer["raised"]:
            half = _half(env)
            why = "half" if half else "raised"
            fill |= dict(zip(("there", "local"), half))
            raise _TEXTS.wrong("refused", why=why, clue=clue, **fill)
        elif not _same(answer["returned"], right):
            why = _why(answer["returned"], env, right)
            fill |= dict(zip(("there", "local"), _half(env)))
            raise _TEXTS.wrong("other numbers", why=why, clue=clue, **fill)
    _refuse_changed(case, rank["answers"])
    return many(len(case.expected), "environment")


def _refuse_changed(case, answers):
    """Refuse who has changed a dictionary that was there to be read."""
    for (name, _, _), answer in zip(case.expected, answers):
        for section in ("lost", "anew"):
            if answer[section]:
                raise _TEXTS.wrong(
                    section, name=name, variables=listed(answer[section])
                )


def _same(found, right):
    """Whether these are three whole numbers, and the right ones."""
    if not isinstance(found, list | tuple) or len(found) != 3:
        return False
    return all(type(one) is int for one in found) and tuple(found) == right


def _half(env):
    """The rank and the local rank of a launcher that has only the first, or ()."""
    for row in LAUNCHERS:
        if row.rank in env and row.local_rank not in env:
            return row.rank, row.local_rank
    return ()


def _accepted(env):
    """The name of the hint where there is no rank, but an answer."""
    counts = next((row for row in LAUNCHERS if row.local_rank in env), None)
    if counts is None:
        return "half" if _half(env) else "nobody"
    script = counts.launcher == "Slurm" and counts.world_size not in env
    return "batch script" if script else "missing"


def _why(found, env, right):
    """The name of the hint for three numbers that are not the right ones."""
    if not isinstance(found, list | tuple) or len(found) != 3:
        return "three"
    if any(type(one) is not int for one in found):
        return "text"
    if sorted(map(repr, found)) == sorted(map(repr, right)):
        return "order"
    rows = [[env.get(name) for name in row[1:4]] for row in LAUNCHERS]
    said = [str(one) for one in found]
    if said == [*OWN.values()]:
        return "own"
    if said == ["0", "1", "0"] and said not in rows:
        return "guess"
    if said in rows:
        return "outer"
    if (half := _half(env)) and str(found[0]) == env[half[0]] != str(right[0]):
        return "half"
    if found[1] != right[1] and str(found[1]) in map(env.get, _JOB_SIZES):
        return "size of the job"
    return "local rank" if tuple(found[:2]) == right[:2] else "mixed"
