"""Why ranks wait for each other for ever, and the sentence that mends it."""

from collections import Counter, defaultdict

from course_lib.launching.watchdog import mismatch, sharded
from course_lib.launching.watchdog.mismatch import SAME
from course_lib.launching.watchdog.stall import RankState, asks_queue, feeds_queue
from course_lib.stacks import is_learners, whereabouts
from course_lib.text import many, ranks_named, signal_name

_JOINS = ("init_process_group", "new_group")
_MOVED = "It did not stand still: between two looks the ranks went on."
_FEEDS = "at its end, until what it put into a queue is taken"
_PAIRS = {
    frozenset({"send"}): (
        "All send and nobody receives: a send ends when its receiver takes the tensor."
        " Let one side receive first, or use dist.batch_isend_irecv."
    ),
    frozenset({"recv"}): (
        "All wait to receive and nobody sends: let one side send first."
    ),
}
_PAIRLESS = (
    "The sends and receives do not pair up: compare dst=, src= and tag= of all ranks."
)


def table(states: list[RankState]) -> list[str]:
    """Return a line for each place where ranks are: which, in what call and line."""
    places = defaultdict(list)
    for state in states:
        places[state.state, state.call, _line(state), _forked(state)].append(state.rank)
    return [line for place, ranks in places.items() for line in _rows(place, ranks)]


def _forked(state):
    """How many of its processes are at which line, or how they ended."""
    lines = Counter(
        _FEEDS if feeds_queue(stack) else whereabouts(stack) for stack in state.forked
    )
    lines.update(_ended(code) for code in state.ended)
    return tuple(lines.items())


def _ended(code):
    if code >= 0:
        return f"ended with exit code {code}"
    return f"killed by {signal_name(-code)}"


def _line(state):
    if state.state not in ("waits", "works", "ends"):
        return ""
    handles = f" (while it handles {state.error})" if state.error else ""
    return whereabouts(state.frames) + handles


def _rows(place, ranks):
    state, call, line, forked = place
    several = len(ranks) > 1
    are, have = ("are", "have") if several else ("is", "has")
    words = {
        "waits": f"{'wait' if several else 'waits'} in {call}: {line}",
        "works": f"{'were' if several else 'was'} in {line}",
        "starts": f"{have} not begun",
        "raises": f"{have} raised an exception",
        "ends": f"{are} at the end, in {line}",
        "stopped": f"{are} stopped",
        "returned": f"{have} returned",
    }
    yield f"{ranks_named(ranks)} {words[state]}"
    for line, count in forked:
        yield f"  {many(count, 'process')} that it started: {line}"


def reason(states: list[RankState], *, moved: bool | None = False) -> str:
    """Say why the waiting ranks wait, and what to change; "" if that is not known.

    Nothing keeps ranks from going on that have `moved`; None: that cannot be told.
    """
    by_state = defaultdict(list)
    for state in states:
        by_state[state.state].append(state)
    waiting = by_state["waits"]
    if by_state["stopped"]:
        return _stopped(by_state["stopped"])
    if queues := _queues(by_state["works"]):
        return queues
    if not waiting:
        return ""
    if by_state["starts"]:
        return _late(by_state["starts"], waiting)
    if moved:
        return _MOVED
    if by_state["works"]:
        return _busy(by_state["works"], waiting)
    if moved is None:
        return ""
    return (
        mismatch.unlike_groups(states)
        or _keys(waiting)
        or _joining(waiting, states)
        or (by_state["returned"] and _returned(by_state["returned"], waiting))
        or _PAIRS.get(frozenset(map(_operation, waiting)), "")
        or _facing(waiting)
        or _circle(waiting)
        or (_messages_only(waiting) and _PAIRLESS)
        or _unpaired(waiting)
        or _different(waiting, len(states))
        or _unlike(waiting)
    )


def _operation(state):
    return state.call.removeprefix("wait() of ")


def _messages_only(waiting):
    return {_operation(state) for state in waiting} <= {"send", "recv"}


def _facing(waiting):
    """Return how a send and a receive of two ranks differ that wait for each other."""
    by_rank = {state.rank: state.message for state in waiting if state.message}
    for rank, sent in by_rank.items():
        got = by_rank.get(sent.other) if sent.call == "send" else None
        if got is None or got.call != "recv" or got.other not in (rank, None):
            continue
        for name in ("tag", "group"):
            mine, theirs = getattr(sent, name), getattr(got, name)
            if mine != theirs:
                return (
                    f"rank {rank} sends to rank {sent.other} with {name} {mine}, and"
                    f" rank {sent.other} waits for {name} {theirs}."
                )
    return ""


def _circle(waiting):
    """Return the circle in which ranks wait for each other's messages, or ""."""
    messages = {state.rank: state.message for state in waiting if state.message}
    for first in messages:
        path = [first]
        while (found := messages.get(path[-1])) and found.other not in (None, *path):
            path.append(found.other)
        if found and found.other == first and len(path) > 2:
            steps = (
                f"rank {rank} waits {_END[messages[rank].call]} {messages[rank].other}"
                for rank in path
            )
            return (
                f"A circle: {', '.join(steps)}. Each waits for the next, whose other"
                " calls come later. Let one rank of the circle make its calls in"
                " another order, or start them all by dist.batch_isend_irecv."
            )
    return ""


_END = {"send": "until its message is taken by rank", "recv": "for a message from rank"}


def _unlike(waiting):
    if len({state.call for state in waiting}) > 1:
        return f"They wait in different calls. {SAME}"
    return (
        "All wait in the same call: do they pass the same group, src or dst, and"
        " tensors of the same size?"
    )


def _stopped(stopped):
    is_ = "is" if len(stopped) == 1 else "are"
    return (
        f"{_ranks(stopped)} {is_} stopped: a signal (SIGSTOP or SIGTSTP) halted the"
        " process, which goes on only after SIGCONT. The others wait for it."
    )


def _queues(working):
    """Say what keeps ranks at a queue of their own processes, or ""."""
    full = [state for state in working if any(map(feeds_queue, state.forked))]
    if full:
        return (
            f"{_ranks(full)} {_wait(full)} for a process to end, and it ends when what"
            " it put into its queue is taken: get() comes before join()."
        )
    left = [s for s in working if s.ended and not s.forked and asks_queue(s.frames)]
    if left:
        return (
            f"{_ranks(left)} {_wait(left)} in get() of a queue, and what was started to"
            " put something into it has ended."
        )
    return ""


def _late(starting, waiting):
    several = len(starting) > 1
    rest = (
        "have not begun: their processes still start"
        if several
        else "has not begun: its process still starts"
    )
    return (
        f"{_ranks(waiting)} {_wait(waiting)} for {_ranks(starting)}, which {rest}, as"
        " on a busy machine."
    )


def _busy(working, waiting):
    return (
        f"{_ranks(waiting)} {_wait(waiting)} for {_ranks(working)}: look at the line"
        f" of {_ranks(working)} first. Does it end?"
    )


def _keys(waiting):
    asking = [state for state in waiting if state.call.startswith("store.")]
    if not asking:
        return ""
    return (
        f"{_ranks(asking)} {_wait(asking)} for a key that no rank has set. Look for its"
        " store.set: is it left out, behind a wait, or under another name?"
    )


def _joining(waiting, states):
    joining = [state for state in waiting if state.call in _JOINS]
    if not joining:
        return ""
    call, count = joining[0].call, len(states)
    others = [state for state in states if state not in joining]
    if others:
        return (
            f"{call} ends when all {count} ranks have called it, and {_ranks(others)}"
            " did not."
        )
    return (
        f"All are in {call}, and still do not meet: is rank= another one on each of"
        f" them, and world_size= {count}?"
    )


def _returned(returned, waiting):
    has, theirs = ("have", "them") if len(returned) > 1 else ("has", "it")
    if dropped := dropped_sends(waiting, returned):
        return dropped
    if _messages_only(waiting):
        return (
            f"{_ranks(returned)} {has} returned, and {_ranks(waiting)} {_wait(waiting)}"
            " for a message: each send needs a recv on the other side."
        )
    counts = {state.num_calls for state in returned}
    count = (
        f" after {many(counts.pop(), 'collective call')}" if len(counts) == 1 else ""
    )
    return (
        f"{_ranks(returned)} {has} returned{count}, and {_ranks(waiting)}"
        f" {_wait(waiting)} for {theirs}. {SAME}"
        f"{sharded.gathers([*waiting, *returned])}{_skipped(waiting)}"
    )


def dropped_sends(receiving: list[RankState], others: list[RankState]) -> str:
    """Return who sent by isend what a rank waits for, and never waited; or ""."""
    for state in receiving:
        wants = state.message.other if state.message else None
        senders = [
            other.rank
            for other in others
            if _operation(state) == "recv"
            and state.rank in other.unwaited
            and wants in (None, other.rank)
        ]
        if senders:
            return (
                f"{ranks_named(senders)} sent to rank {state.rank} by isend, and did"
                " not wait for it: the message is under way until wait() of the handle"
                " returns. Keep the handle, and wait for it before the next call."
            )
    return ""


def _unpaired(waiting):
    """Return a send or a recv whose other half nobody calls."""
    if dropped := dropped_sends(waiting, waiting):
        return dropped
    for call, half in (("recv", "send to it"), ("send", "recv from it")):
        alone = [state for state in waiting if _operation(state) == call]
        others = [state for state in waiting if state not in alone]
        if alone and others:
            places = defaultdict(list)
            for state in others:
                places[state.call].append(state.rank)
            rest = [f"{ranks_named(ranks)} in {call}" for call, ranks in places.items()]
            return (
                f"{_ranks(alone)} {_wait(alone)} in {call}, and {', '.join(rest)}:"
                f" nobody will {half}."
            )
    return ""


def _different(waiting, world_size):
    sentence, concerned = mismatch.first_mismatch(waiting, world_size)
    skipped = _skipped([state for state in waiting if state.rank in concerned])
    return sentence and sentence + sharded.gathers(waiting) + skipped


def _skipped(waiting):
    """Return a question about the line at which some ranks wait and others do not."""
    lines = {state.rank: _own(state) for state in waiting}
    if not lines or None in lines.values():
        return ""
    functions = {frame[::2] for frame in lines.values()}
    first = min(frame.line for frame in lines.values())
    past = [rank for rank, frame in lines.items() if frame.line > first]
    if len(functions) > 1 or not past:
        return ""
    reasons = "an `if`, a shorter loop or a caught error"
    return f" Does {reasons} keep {ranks_named(past)} from line {first}?"


def _own(state):
    """Return the innermost line of the learner's; None if a library waits by itself."""
    return next(filter(is_learners, reversed(state.frames)), None)


def _ranks(states):
    return ranks_named([state.rank for state in states])


def _wait(states):
    return "wait" if len(states) > 1 else "waits"
