"""The first collective that is not the same on all ranks."""

from collections import defaultdict

from course_lib.launching.watchdog.stall import Standing
from course_lib.text import ranks_named

SAME = "All ranks must make the same collective calls in the same order."


def find(waiting: list[Standing], world_size: int) -> tuple[str, list[int]]:
    """A sentence on the first difference, and the ranks that may have missed a line.

    Nothing if all ranks have called the same.
    """
    # a rank that could not answer knows none of its groups
    told = [one for one in waiting if one.members]
    calls = {one.rank: {(c.group, c.number): c for c in one.calls} for one in told}
    for group in sorted({group for made in calls.values() for group, _ in made}):
        members = [
            rank for rank in _members(group, waiting, world_size) if rank in calls
        ]
        here = {rank: _numbers(calls[rank], group) for rank in members}
        found = _first_difference(here)
        if found:
            number, sentence, missed = found
            which = f"Collective {number}" + _of(group)
            return which + sentence, members if missed else []
    return "", []


def _members(group, waiting, world_size):
    """The ranks of a group: as they know it themselves, else all."""
    for one in waiting:
        if group in dict(one.members):
            return dict(one.members)[group]
    return range(world_size)


def _numbers(calls, group):
    return {number: call for (name, number), call in calls.items() if name == group}


def _of(group):
    return "" if group == "0" else f" of group {group}"


def _first_difference(here):
    """The number of the first call that is not the same on all ranks, and how.

    Third, whether some rank may have missed a line that can be named.
    """
    kept = [min(calls) for calls in here.values() if calls]
    if not kept:
        return None
    last = max(max(calls) for calls in here.values() if calls)
    undone = None
    # before that some rank has forgotten its calls
    for number in range(max(kept), last + 1):
        made = {rank: calls.get(number) for rank, calls in here.items()}
        found = [call for call in made.values() if call]
        if not all(found[0].fits(call) for call in found):
            # no line can be named of a call that was not made
            return number, _said(made), len(found) == len(made)
        if len(found) < len(made):
            return undone or (number, _said(made), False)
        if len({call.done for call in found}) > 1:
            undone = undone or (number, _half_done(made), False)
    return None


def _said(made):
    said = ", ".join(_made(call, ranks) for call, ranks in _alike(made))
    return f" differs: {said}. {SAME}"


def _half_done(made):
    """A call that some ranks have behind them and others not: they name other roots."""
    done = [rank for rank, call in made.items() if call.done]
    waits = [rank for rank, call in made.items() if not call.done]
    name = next(iter(made.values())).name
    return (
        f", {name}, is done on {ranks_named(done)} and not on {ranks_named(waits)}: do"
        " all pass the same src, dst and group?"
    )


def _alike(here):
    ranks = defaultdict(list)
    for rank, call in here.items():
        ranks[str(call) if call else None].append(rank)
    return ranks.items()


def _made(call, ranks):
    verb = "call" if len(ranks) > 1 else "calls"
    return f"{ranks_named(ranks)} {verb} {call or 'none'}"
