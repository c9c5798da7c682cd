"""What one rank sends and receives: a post for each call, and the kernel's count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from weakref import WeakKeyDictionary

import torch.distributed as dist

from course_lib.system.connections import Connection, tcp_connections
from course_lib.system.patching import patch
from course_lib.text import short
from course_lib.tracing import flight_recorder
from course_lib.tracing.flight_recorder import Call

LIMIT = 50_000  # posts of a rank; later ones are only counted


@dataclass(slots=True)
class Post:
    """A send or receive that a rank called; times in ns of the machine's clock.

    `source` and `target` are ranks of the launch; None for a sender that is not known
    yet. `carries` is its tensor in short, `f32[8, 4]`. `known` is when the rank knew
    that it was done; 0 if it never waited for it.
    """

    call: str
    source: int | None
    target: int
    group: str
    tag: int
    carries: str
    bytes: int
    start: int
    stop: int = 0
    known: int = 0


row = attrgetter(*Post.__slots__)  # the fields of a post, in order


@dataclass(frozen=True)
class RankTraffic:
    """All that is known of what one rank sent, before ranks are compared.

    `posts` are rows of the fields of a `Post`: plain ones travel ten times as quickly.
    `more` are messages and bytes beyond the `posts`, `forgotten` calls before `calls`,
    `carried` its connections, each with the bytes that it had written to be set up.
    """

    posts: tuple[tuple, ...] = ()
    calls: tuple[Call, ...] = ()
    more: tuple[int, int] = (0, 0)
    forgotten: int = 0
    carried: tuple[tuple[Connection, int], ...] = ()


class Log:
    """The posts of this rank, and what its connections carried since they were made."""

    def __init__(self):
        self.posts, self.more, self._pending = [], (0, 0), {}
        self.waits: list[tuple[int, int]] = []  # of `Work.wait`, in nanoseconds
        # weakly: a handle that the learner drops must go
        self._sends = WeakKeyDictionary()
        self._first, self._last = {}, {}

    @contextmanager
    def kept(self) -> Iterator[Log]:
        """Note each send and receive in the block."""
        with ExitStack() as stack:
            for name in ("send", "recv", "recv_anysource"):
                patch(stack, (dist.ProcessGroup, name), partial(self._message, name))
            patch(stack, (dist.Work, "wait"), self._waited)
            yield self

    def look(self, *, new: bool = False) -> None:
        """Read what connections carried; with `new`, from now on, of those not seen."""
        connections = tcp_connections()
        self._last |= connections
        for name, end in connections.items() if new else ():
            self._first.setdefault(name, end.written)

    def traffic(self) -> RankTraffic:
        """Return what is known now."""
        self.look()
        ends = self._last.items()
        carried = tuple((end, self._first.get(name, 0)) for name, end in ends)
        entries = flight_recorder.entries()
        forgotten = min((entry["record_id"] for entry in entries), default=0)
        calls = tuple(flight_recorder.read_calls(entries))
        posts = tuple(map(row, self.posts))
        return RankTraffic(posts, calls, self.more, forgotten, carried)

    def post(self, work) -> Post | None:
        """Return the post of a send or receive by its work, as long as none is done."""
        pending = self._pending.get(id(work))
        if pending or not isinstance(work, dist.Work):
            return pending and pending[-1]
        return self._sends.get(work)

    def unwaited(self) -> tuple[int, ...]:
        """Return the ranks to which this one sent without a wait until the end."""
        sent = (post for post in self.posts if post.call == "send" and not post.known)
        return tuple(sorted({post.target for post in sent}))

    def _message(self, name, original, /, *args, **named):
        given = [*args, *named.values()]
        group, tensors, *peer, tag = given
        post = _post(name, group, *peer, tag=tag, tensor=tensors[0])
        if len(self.posts) < LIMIT:
            self.posts.append(post)
        elif name == "send":
            self.more = self.more[0] + 1, self.more[1] + post.bytes
        try:
            work = original(*args, **named)
        finally:
            post.stop = time.time_ns()
        if name == "send":
            self._sends[work] = post
        else:
            # with the work, whose number would else go to another one
            self._pending[id(work)] = work, group, post
        return work

    def _waited(self, original, /, work, *args, **kwargs):
        start = time.time_ns()
        done = original(work, *args, **kwargs)
        if len(self.waits) < LIMIT:
            self.waits.append((start, time.time_ns()))
        if work in self._sends:
            self._sends.pop(work).known = time.time_ns()
        if id(work) in self._pending:
            _, group, post = self._pending.pop(id(work))
            post.known = time.time_ns()
            if post.source is None:
                post.source = _rank(group, work._source_rank())
        return done


def _post(name, group, peer=None, *, tag, tensor):
    """Return the post of a call that begins now."""
    ends = _rank(group, peer), _rank(group, group.rank())
    source, target = reversed(ends) if name == "send" else ends
    call, route = name.partition("_")[0], (source, target, group.group_name, tag)
    carries = short(tensor if tensor.dim() else tensor[None])
    return Post(call, *route, carries, tensor.nbytes, time.time_ns())


def _rank(group, peer):
    """Return the rank in the launch of a rank in a group; None stays unknown."""
    if peer is not None and not 0 <= peer < group.size():
        # PyTorch would wait for it until its time is up, half an hour
        raise ValueError(
            f"there is no rank {peer} to send to or receive from: this group has ranks"
            f" 0 to {group.size() - 1}. In a ring, (rank + 1) % world_size comes next."
        )
    return None if peer is None else dist.get_global_rank(group, peer)


rank_log = Log()  # of a rank, from when it begins to when its function has returned
