"""nbval's kernel, where it runs already: its end is noticed, its output bounded."""

import collections
import json
import os
import queue
import re
import select
import signal
import time
from typing import Any

import zmq
from jupyter_client import BlockingKernelClient
from nbval.kernel import RunningKernel

_SILENCE = 2.0  # seconds after the reply until a kernel has no more to show
_LONGEST = 4000  # characters of an error that are kept
_DYING = 10.0  # seconds that a killed process may take
_START = 0.05  # seconds between two questions to a kernel that starts
_CHECKS = ("NotYet", "NotStarted")  # errors that say in two parts what is not right
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def short(text) -> str:
    """Return what a kernel sent as a text: without colours, at most 4,000 letters."""
    text = _ESCAPES.sub("", str(text)).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _error(content):
    """An error as it is kept: of a traceback nothing, but the two parts of a check."""
    kept = {key: short(content.get(key, "")) for key in ("ename", "evalue")}
    lines = content.get("traceback") if kept["ename"] in _CHECKS else None
    parts = list(map(short, lines)) if isinstance(lines, list) else []
    return kept | {"traceback": parts if len(parts) == 2 else []}


class Ended(Exception):
    """The kernel ended while a cell ran."""


class Supervised(RunningKernel):
    """nbval's kernel, which notices at once when it ends, and bounds what it shows."""

    def __init__(self, pid, job):
        self.pid, self.end = pid, os.pidfd_open(pid)
        self.most = job["output"]
        self.shown, self.dropped = 0, 0
        self.replied: Any = None
        self.until = 0.0  # by the clock, for the cell that runs
        self.waiting = collections.deque()
        self.kc = BlockingKernelClient(connection_file=job["connection"])
        self.kc.load_connection_file()
        self.kc.start_channels(stdin=False, hb=False)
        self.poller = zmq.Poller()
        for channel in (self.kc.shell_channel, self.kc.iopub_channel):
            self.poller.register(channel.socket, zmq.POLLIN)
        self.poller.register(self.end, zmq.POLLIN)
        self._meet()

    def _meet(self):
        """Wait until what the kernel shows arrives: it sends, heard or not."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            asked = self.kc.kernel_info()
            try:
                self.await_reply(asked, timeout=10)
                self.replied = None  # only what it shows proves that it is heard
                self.await_idle(asked, timeout=_START)
                return
            except queue.Empty:
                continue
        raise RuntimeError("the kernel does not answer")

    def execute_cell_input(self, cell_input, allow_stdin=None):
        """Start a cell; the number of its request comes back."""
        self.shown, self.dropped, self.replied, self.until = 0, 0, None, 0.0
        self.waiting.clear()
        return super().execute_cell_input(cell_input, allow_stdin=allow_stdin)

    def get_message(self, stream, timeout=None):
        """Return the next message of `shell` or `iopub`, which is emptied all the time.

        Errors: `queue.Empty` after `timeout` seconds; `Ended` if the kernel has.
        """
        until = time.monotonic() + (1e9 if timeout is None else timeout)
        if stream == "shell":
            self.until = self.until or until
        elif self.replied:  # much that it showed may still be on its way
            until = max(until, self.until)
        while stream == "shell" or not self.waiting:
            left = until - time.monotonic()
            if left < 0:  # also where messages come faster than they are read
                raise queue.Empty
            if stream == "iopub" and self.replied:
                left = min(left, _SILENCE)
            ready = dict(self.poller.poll(int(max(0, left) * 1000)))
            if self.kc.iopub_channel.socket in ready:
                self._keep(self.kc.iopub_channel.get_msg(timeout=0))
            elif self.kc.shell_channel.socket in ready:
                message = self.kc.shell_channel.get_msg(timeout=0)
                self.replied = message
                self._await_exit(message["content"])
                if stream == "shell":
                    return message
            elif ready:
                raise Ended("this cell ended the kernel")
            elif stream == "iopub" and self.replied:
                return self._farewell()
            else:
                raise queue.Empty
        return self.waiting.popleft()

    def _await_exit(self, reply):
        """Wait for the end of a kernel that was asked to end, by `quit()` for one."""
        payload = reply.get("payload") or ()
        if any(request.get("source") == "ask_exit" for request in payload):
            select.select([self.end], [], [], _DYING)

    def _keep(self, message):
        """Keep what nbval reads of a message; nothing if the cell shows too much."""
        kind, content = message["msg_type"], message["content"]
        if kind == "error":
            content = _error(content)
        elif kind == "status":
            content = {"execution_state": short(content.get("execution_state", ""))}
        elif kind.startswith("comm_"):
            return  # of widgets, for a browser
        else:
            size = len(json.dumps(content))
            self.shown += size
            if self.shown > self.most:
                self.dropped += size
                return
        parent = {"msg_id": message["parent_header"].get("msg_id")}
        self.waiting.append(
            {"msg_type": kind, "parent_header": parent, "content": content}
        )

    def _farewell(self):
        """What the kernel did not show although it replied: an error, then idle."""
        parent, reply = self.replied["parent_header"], self.replied["content"]
        self.replied = None
        idle = {"execution_state": "idle"}
        self.waiting.append(
            {"msg_type": "status", "parent_header": parent, "content": idle}
        )
        if reply.get("status") != "error":
            return self.waiting.popleft()
        lost = _error(reply)
        return {"msg_type": "error", "parent_header": parent, "content": lost}

    def is_alive(self):
        """Return True while the kernel runs."""
        return not select.select([self.end], [], [], 0)[0]

    def interrupt(self):
        """Press Ctrl-C in the kernel and what it started."""
        os.killpg(self.pid, signal.SIGINT)

    def stop(self):
        """End the kernel; what it started is ended by who started it."""
        self.kc.stop_channels()
        if self.is_alive():
            signal.pidfd_send_signal(self.end, signal.SIGKILL)
            select.select([self.end], [], [], _DYING)
