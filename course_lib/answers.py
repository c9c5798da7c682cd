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
from contextlib import suppress
from typing import NamedTuple

from course_lib import calls
from course_lib.calls import Call
from course_lib.errors import Frame

_KEPT = "2000"  # calls; older ones are forgotten
_LAST = 50  # calls that a rank tells when it ends

_socket = None  # the file number; None until the launch gave one
_patience = math.inf  # seconds; of the process group that waits least long
_started = False


class Answer(NamedTuple):
    """Stacks of a rank's threads, outermost first, the main thread's last; its calls.

    PyTorch itself gives up waiting after `patience` seconds.
    """

    stacks: tuple[list[Frame], ...] = ()
    calls: tuple[Call, ...] = ()
    patience: float = math.inf


def be_asked(file: int) -> None:
    """Answer questions that come on this socket, once there is a process group."""
    global _socket
    _socket = file


def start(patience: float) -> None:
    """Let a thread answer from now on; a group waits `patience` seconds for a rank."""
    global _started, _patience
    _patience = min(_patience, patience)
    if _socket is not None and not _started:
        _started = True
        # read with the first group; `trace=True` has asked for more
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", _KEPT)
        threading.Thread(target=_answer, daemon=True, name="course_lib").start()


def _answer():
    # the launch may be over, or the learner have closed all files
    with suppress(OSError), socket.socket(fileno=os.dup(_socket)) as asked:
        asked.sendall(b"\n")  # from now on there are answers
        while asked.recv(1):
            asked.sendall(_said(_stacks(), calls.read(calls.entries())))


def _said(*told):
    return json.dumps([*told, _patience]).encode() + b"\n"


def _stacks():
    me, main = threading.get_ident(), threading.main_thread().ident
    found = sys._current_frames()
    idents = sorted(found.keys() - {me}, key=lambda ident: ident == main)
    return [_walk(found[ident]) for ident in idents]


def _walk(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.insert(0, Frame(code.co_filename, frame.f_lineno or 0, code.co_name))
        frame = frame.f_back
    return stack


def farewell() -> None:
    """Tell the last calls unasked: nobody can ask a rank that has ended."""
    if _started:
        # a learner may have closed it, and nobody may read: it must not matter
        with suppress(OSError), socket.socket(fileno=os.dup(_socket)) as asked:
            last = calls.read(calls.entries())[-_LAST:]
            asked.send(_said([], last), socket.MSG_DONTWAIT)


def understand(text: bytes) -> Answer:
    """An answer as it came through the socket."""
    stacks, called, patience = json.loads(text)
    frames = tuple([Frame(*frame) for frame in stack] for stack in stacks)
    return Answer(frames, tuple(Call(*call) for call in called), patience)
