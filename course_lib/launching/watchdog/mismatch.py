"""The first collective that is not the same on all ranks."""

from collections import defaultdict

from course_lib.launching.watchdog.stall import RankState
from course_lib.text import ranks_named

SAME = "All ranks must make the same collective calls in the same order."


def first_mismatch(waiting: list[RankState], world_size: int) -> tuple[str, list[int]]:
    """Return a sentence on the first difference, and ranks that may have missed a line.

    Nothing if all ranks have called the same.
    """
    # a rank that could not answer knows none of its groups
    informed = {state.rank: state for state in waiting if state.members}
    groups = {call.group for state in informed.values() for call in state.calls}
    for group in sorted(groups):
        members = _members(group, waiting, world_size)
        here = {r: _numbered(informed[r], group) for r in members if r in informed}
        difference = _first_difference(here)
        if difference:
            number, sentence, missed = difference
            of_group = "" if group == "0" else f" of group {group}"
            return f"Collective {number}{of_group}{sentence}", [*here] if missed else []
    return "", []


def _members(group, waiting, world_size):
    """Return the ranks of a group: as they know it themselves, else all."""
    for state in waiting:
        if group in state.members:
            return state.members[group]
    return range(world_size)


def _numbered(state, group):
    return {call.number: call for call in state.calls if call.group == group}


def _first_difference(here):
    """Return the number of the first call that is not the same on all ranks, and how.

    Third, whether some rank may have missed a line that can be named.
    """
    oldest = [min(calls) for calls in here.values() if calls]
    if not oldest:
        return None
    last = max(max(calls) for calls in here.values() if calls)
    undone = None
    # before that some rank has forgotten its calls
    for number in range(max(oldest), last + 1):
        by_rank = {rank: calls.get(number) for rank, calls in here.items()}
        calls = [call for call in by_rank.values() if call]
        if not all(calls[0].fits(call) for call in calls):
            # no line can be named of a call that was not made
            return number, _differs(by_rank), len(calls) == len(by_rank)
        if len(calls) < len(by_rank):
            return undone or (number, _differs(by_rank), False)
        if len({call.done for call in calls}) > 1:
            undone = undone or (number, _half_done(by_rank), False)
    return None


def _differs(by_rank):
    ranks = defaultdict(list)
    for rank, call in by_rank.items():
        ranks[str(call or "none")].append(rank)
    calls = ", ".join(_who_calls(who, call) for call, who in ranks.items())
    return f" differs: {calls}. {SAME}"


def _half_done(by_rank):
    """Say which call is behind some ranks and not others: they name other roots."""
    done = [rank for rank, call in by_rank.items() if call.done]
    waits = [rank for rank, call in by_rank.items() if not call.done]
    name = next(iter(by_rank.values())).name
    return (
        f", {name}, is done on {ranks_named(done)} and not on {ranks_named(waits)}: do"
        " all pass the same src, dst and group?"
    )


def _who_calls(ranks, call):
    verb = "call" if len(ranks) > 1 else "calls"
    return f"{ranks_named(ranks)} {verb} {call}"
