"""A rank says where it is and what it has called, while its main thread is blocked.

A thread of its own waits for questions on a socket, from the first process group on. It
holds the interpreter lock while it looks, so that asking a healthy rank is safe;
`faulthandler` reads the stacks of running threads, and may crash.
"""

import json
import math
import os
import socket
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from course_lib.launching.watchdog import last_words
from course_lib.stacks import Frame, within_function
from course_lib.tracing import flight_recorder
from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.messages import rank_log

_KEPT = "2000"  # calls; older ones are forgotten
_LAST = 50  # calls that a rank tells when it ends
_OPERATIONS = {
    0: "broadcast",
    1: "all_reduce",
    3: "reduce",
    4: "all_gather",
    7: "gather",
    8: "scatter",
    9: "reduce_scatter",
    11: "all_to_all",
    12: "send",
    13: "recv",
    14: "recv",
    15: "barrier",
}

# what a rank tells: its function runs, has returned, has raised; how is written; that
# compiled code ends it, which an answer has said
WORDS = b"begun", b"left", b"raised", b"failed", b"crashed"
BEGUN, LEFT, RAISED, FAILED, CRASHED = WORDS

# file number and process; none until the launch gave one
_socket: int | None = None
_rank: int | None = None
_limit = math.inf  # seconds; of the last process group
_started = False
_awaited = None  # the work that the main thread waits for, or words for it
_grouped = []  # ranks that each call of new_group named, in order


class Pending(NamedTuple):
    """A message that a rank waits for: `send` or `recv`, to or from which rank.

    `other` is None where any sender will do; `carries` is its tensor, `f32[8, 4]`.
    """

    call: str
    other: int | None
    tag: int
    group: str
    carries: str


class Answer(NamedTuple):
    """Stacks of a rank's threads, outermost first, the main thread's last; its calls.

    `limit` is how many seconds the last process group waits, `members` its groups by
    name, `awaited` the kind of the work that is waited for, `error` an exception that
    is being handled. `message` is the send or receive that is waited for, `grouped` the
    ranks that each call of new_group named, `unwaited` the ranks to which it sent by
    isend without a wait() so far.
    """

    stacks: tuple[list[Frame], ...] = ()
    calls: tuple[Call, ...] = ()
    limit: float = math.inf
    members: dict[str, list[int]] = {}
    awaited: str = ""
    error: str = ""
    message: Pending | None = None
    grouped: tuple[list[int], ...] = ()
    unwaited: tuple[int, ...] = ()

    @property
    def patience(self) -> float:
        """After how many seconds PyTorch itself gives up the call that waits."""
        pending = [call.limit for call in self.calls if not call.done]
        return min(pending, default=self.limit)


def be_asked(file: int) -> None:
    """Answer questions that come on this socket, once there is a process group."""
    global _socket, _rank
    _socket, _rank = file, os.getpid()


def tell(line: bytes) -> None:
    """Tell the launch something unasked: one of `WORDS`, or where this rank is."""
    # a learner may have closed it, and nobody may read: it must not matter
    if _socket is not None and _is_rank():
        with suppress(OSError), socket.socket(fileno=os.dup(_socket)) as link:
            link.send(line + b"\n", socket.MSG_DONTWAIT)


def start(limit: float | None = None) -> None:
    """Let a thread answer from now on; the new group waits `limit` seconds."""
    global _started, _limit
    _limit = _limit if limit is None else limit
    if _is_rank() and not _started:
        _started = True
        # read with the first group; `trace=True` has asked for more
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", _KEPT)
        threading.Thread(target=_answer, daemon=True, name="course_lib").start()
        last_words.before_terminate(_crash)


def note_group(ranks: list[int]) -> None:
    """Note which ranks a call of new_group names that all ranks must make alike."""
    _grouped.append(ranks)


def _crash():
    """Tell where this rank is while compiled code ends it; gloo does so in a thread."""
    with suppress(Exception):
        tell(_told(_stacks(), _calls()[-_LAST:]))
        tell(CRASHED)


def _is_rank():
    """Return False elsewhere, and in processes that the rank has forked."""
    return _rank == os.getpid()


@contextmanager
def awaits(work):
    """Note what the main thread waits for in this block, a work or in words."""
    global _awaited
    _awaited = work
    try:
        yield
    finally:
        _awaited = None


def _answer():
    # the launch may be over, or the learner have closed all files; and whatever goes
    # wrong here must not stand in the learner's output
    number = -1 if _socket is None else _socket
    with suppress(Exception), socket.socket(fileno=os.dup(number)) as link:
        link.sendall(b"\n")  # from now on there are answers
        while link.recv(1):
            link.sendall(_told(_stacks(), _calls()) + b"\n")


def _told(stacks, calls):
    awaited = _operation(_awaited)
    facts = Answer(stacks, calls, _limit, _members(), awaited, _error())
    facts = facts._replace(
        message=_message(), grouped=tuple(_grouped), unwaited=rank_log.unwaited()
    )
    return json.dumps(facts).encode()


def _calls():
    calls = flight_recorder.read_calls(flight_recorder.entries())
    return tuple(flight_recorder.newest(calls))


def process_groups() -> dict:
    """Return the process groups that this rank belongs to, each with name and ranks."""
    from torch.distributed import distributed_c10d as c10d

    # copies: the main thread may make a group meanwhile
    names, members = dict(c10d._world.pg_names), dict(c10d._world.pg_group_ranks)
    return {g: (names[g], sorted(ranks)) for g, ranks in members.items() if g in names}


def _members():
    return dict(process_groups().values())


def _operation(work):
    if isinstance(work, str):
        return work
    return _OPERATIONS.get(work._get_op_type(), "") if work is not None else ""


def _message():
    post = rank_log.post(_awaited)
    if post is None:
        return None
    other = post.target if post.call == "send" else post.source
    return Pending(post.call, other, post.tag, post.group, post.carries)


def _error():
    """Return the exception that the main thread is handling, in one line."""
    main = threading.main_thread().ident
    error: Any = sys._current_exceptions().get(main) if main else None
    error = error[1] if isinstance(error, tuple) else error  # a tuple before 3.12
    return f"{type(error).__qualname__}: {error}"[:200] if error else ""


def _stacks():
    me, main = threading.get_ident(), threading.main_thread().ident
    frames = sys._current_frames()
    idents = sorted(frames.keys() - {me}, key=lambda ident: ident == main)
    return tuple(within_function(_walk(frames[ident])) for ident in idents)


def _walk(frame):
    stack = [
        Frame(inner.f_code.co_filename, line or 0, inner.f_code.co_name)
        for inner, line in traceback.walk_stack(frame)
    ]
    return stack[::-1]


def farewell() -> None:
    """Tell the last calls unasked: nobody can ask a rank that has ended."""
    if _started and _is_rank():
        tell(_told((), _calls()[-_LAST:]))


def understand(text: bytes) -> Answer:
    """Return an answer as it came through the socket."""
    answer = Answer(*json.loads(text))
    return answer._replace(
        stacks=tuple([Frame(*frame) for frame in stack] for stack in answer.stacks),
        calls=tuple(Call(*call) for call in answer.calls),
        message=answer.message and Pending(*answer.message),
    )
