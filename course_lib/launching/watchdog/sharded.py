"""Which ranks are in what gathers the shards of all ranks, and which are not."""

from course_lib.launching.watchdog import gathering
from course_lib.launching.watchdog.stall import RankState
from course_lib.stacks import is_learners, place
from course_lib.text import listed, ranks_named

_BLOCKS = (
    " Forward and backward of a sharded model make calls for each of its blocks: all"
    " ranks must run the same blocks, equally often, also to evaluate."
)
_EACH = " All ranks must call each of them, equally often and in the same order."


def gathers(states: list[RankState]) -> str:
    """Say who is in what takes all ranks, and who is not; "" or with a space before it.

    `states` are those of ranks whose calls differ, and of those that have returned.
    """
    inside = {}
    for state in states:
        if kind := gathering.find(state.frames):
            inside.setdefault(kind, []).append(state)
    if _differ_before(states):
        return ""
    if len(inside) > 1:
        each = listed(_are_in(within, kind) for kind, within in inside.items())
        return f" {each}.{_BLOCKS if all(k.trains for k in inside) else _EACH}"
    if not inside:
        return ""
    ((kind, within),) = inside.items()
    others = [state for state in states if state.rank in _missed(within, states)]
    if not others:
        return _BLOCKS if kind.trains else ""
    if any(_comes(state, within) for state in others):
        return ""
    are = "are" if len(others) > 1 else "is"
    return (
        f" {_are_in(within, kind)}, {kind.why}; {_ranks(others)} {are} not."
        f" {kind.advice}"
    )


def _differ_before(states):
    """Return whether a call differs that one of them has behind it: not these ones."""
    calls = [{(c.group, c.number): c for c in state.calls} for state in states]
    behind = {key for each in calls for key in [*each][:-1]}
    alike = [[each[key] for each in calls if key in each] for key in behind]
    return not all(each[0].fits(call) for each in alike for call in each)


def _are_in(states, kind):
    """Say who is in it, and from which line of the function that was launched."""
    are = "are" if len(states) > 1 else "is"
    learners = [frame for frame in states[0].frames if is_learners(frame)]
    called = f" ({place(learners[0])})" if len(learners) > 1 else ""
    return f"{_ranks(states)} {are} in {kind.name}{called}"


def _ranks(states):
    return ranks_named([state.rank for state in states])


def _missed(within, states):
    """Return the ranks of the groups in which these wait, without themselves."""
    ranks = set()
    for state in within:
        group = state.calls[-1].group if state.calls else ""
        ranks.update(state.members.get(group) or [each.rank for each in states])
    return ranks - {state.rank for state in within}


def _comes(state, within):
    """Return True for a rank at a line before theirs, which may yet come to it."""
    line, *_ = [*filter(is_learners, state.frames), None]
    theirs = [next(filter(is_learners, each.frames), None) for each in within]
    return line is not None and any(
        frame and frame[::2] == line[::2] and line.line < frame.line for frame in theirs
    )
