"""The first collective that is not the same on all ranks."""

from collections import defaultdict

from course_lib.launching.watchdog.stall import RankState
from course_lib.text import ranks_named

SAME = "All ranks must make the same collective calls in the same order."
_SAME_NUMBERS = f"{SAME[:-1]}, with as many numbers of one type."


def first_mismatch(waiting: list[RankState], world_size: int) -> tuple[str, list[int]]:
    """Return a sentence on the first difference, and ranks that may have missed a line.

    Nothing if all ranks have called the same.
    """
    for group, here in _by_group(waiting, world_size):
        difference = _first_difference(here)
        if difference:
            number, sentence, missed = difference
            text = f"Collective {number}{_of(group)}{sentence}"
            return text, [*here] if missed else []
    return "", []


def unlike_calls(states: list[RankState], world_size: int) -> str:
    """Return a sentence on the first collective that ranks called unlike, or "".

    A call that some rank has not made is no difference here.
    """
    for group, here in _by_group(states, world_size):
        for number in sorted(set().union(*here.values())):
            calls = {r: calls[number] for r, calls in here.items() if number in calls}
            first = next(iter(calls.values()))
            if not all(first.fits(call) for call in calls.values()):
                return f"Collective {number}{_of(group)}{_differs(calls)}"
    return ""


def unlike_groups(states: list[RankState]) -> str:
    """Return a sentence on the first `new_group` in which ranks name others, or ""."""
    named = [(state.rank, state.grouped) for state in states if state.grouped]
    for number in range(min((len(lists) for _, lists in named), default=0)):
        ranks = defaultdict(list)
        for rank, lists in named:
            ranks[tuple(lists[number])].append(rank)
        if len(ranks) > 1:
            who = ", ".join(_who_names(who, group) for group, who in ranks.items())
            return (
                f"Call {number + 1} of new_group differs: {who}. Every rank must call"
                " new_group for every group, in the same order, also for one that it"
                " is not in."
            )
    return ""


def _who_names(ranks, group):
    return f"{ranks_named(ranks)} {'name' if len(ranks) > 1 else 'names'} {[*group]}"


def _by_group(states, world_size):
    """Yield each group, and by its ranks the calls by number.

    Left out are ranks that could not answer: of them no call is known.
    """
    informed = {state.rank: state for state in states if state.members or state.calls}
    groups = {call.group for state in informed.values() for call in state.calls}
    for group in sorted(groups):
        members = _members(group, states, world_size)
        yield (
            group,
            {r: _numbered(informed[r], group) for r in members if r in informed},
        )


def _of(group):
    return "" if group == "0" else f" of group {group}"


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
    names = {call and call.name for call in by_rank.values()}
    return f" differs: {calls}. {SAME if len(names) > 1 else _SAME_NUMBERS}"


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
