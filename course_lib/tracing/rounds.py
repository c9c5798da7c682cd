"""In which round each message was sent: by what comes before what, not by the clock.

Each rank sends at most one message in a round, and receives at most one. A message
comes after all that its sender has sent, received and waited for before, and after what
its receiver took before it. That depends on the program alone, and so does its round.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.messages import Post, RankTraffic


@dataclass(eq=False, slots=True)
class Happening:
    """A message, by the post of its send, or a collective, by ranks and their calls.

    `taken` is the post of the receive that knows of the message. `before` are the steps
    after which it comes.
    """

    time: int
    sent: Post | None = None
    members: tuple[tuple[int, Call], ...] = ()
    taken: Post | None = None
    before: list[Happening] = field(default_factory=list)
    round: int = 0


def find_rounds(ranks: list[RankTraffic]) -> list[Happening]:
    """Return what ranks sent and called, each with its round, in order of time."""
    posts = [[Post(*row) for row in traffic.posts] for traffic in ranks]
    messages = _messages(posts)
    collectives = _collectives(ranks)
    for happened in _happened(messages, collectives, count=len(ranks)):
        _order(happened)
    _order_unknown(messages)
    steps = sorted([*messages, *collectives], key=attrgetter("time"))
    _number(steps)
    return steps


def _messages(posts):
    """Return a step for each send, with the receive that took it."""
    routes, steps = defaultdict(deque), []
    for own in posts:
        for post in own:
            if post.call == "send":
                step = Happening(post.start, sent=post)
                steps.append(step)
                routes[_route(post)].append(step)
    for own in posts:
        for post in own:
            # of one route, the first receive takes what was sent first
            if post.call != "send" and (waiting := routes.get(_route(post))):
                step = waiting.popleft()
                step.taken = post if post.known else None
    return steps


def _route(post):
    return post.group, post.source, post.target, post.tag


def _collectives(ranks):
    calls = defaultdict(list)
    for rank, traffic in enumerate(ranks):
        for call in traffic.calls:
            key = call.backend, call.group, call.generation, call.number
            calls[key].append((rank, call))
    return [
        Happening(max(call.start for _, call in members), members=tuple(members))
        for members in calls.values()
    ]


def _happened(messages, collectives, *, count):
    """Return what each rank did and when it did so, by its own clock, in its order."""
    own = [[] for _ in range(count)]
    for step in messages:
        own[step.sent.source].append((step.sent.start, "send", step))
        if step.taken:
            own[step.taken.target].append((step.taken.known, "receive", step))
    for step in collectives:
        for rank, call in step.members:
            own[rank].append((call.start, "call", step))
    return [sorted(each, key=itemgetter(0)) for each in own]


def _order(happened):
    """Let each step of a rank come after those before it in its program."""
    since, taken = [], None
    for _, what, step in happened:
        if what == "receive":
            step.before += [taken] if taken else []
            since.append(step)
            taken = step
        else:
            step.before += since
            since = [step]


def _order_unknown(messages):
    """Let messages that no rank has waited for arrive one after the other, by time."""
    last = {}
    for step in sorted(messages, key=attrgetter("time")):
        if step.taken is None:
            target = step.sent.target
            step.before += [last[target]] if target in last else []
            last[target] = step


def _number(steps):
    """Give each step the round after the last of those before it."""
    after, missing = defaultdict(list), {}
    for step in steps:
        missing[step] = len(step.before)
        for earlier in step.before:
            after[earlier].append(step)
    ready, done = deque(step for step in steps if not missing[step]), set()
    for first in steps:
        if not ready and first not in done:
            # waits that cross, as of receives in another order: the first by time
            ready.append(first)
        while ready:
            step = ready.popleft()
            done.add(step)
            earlier = (one.round for one in step.before if one in done)
            step.round = 1 + max(earlier, default=0)
            for later in after[step]:
                missing[later] -= 1
                if not missing[later] and later not in done:
                    ready.append(later)
