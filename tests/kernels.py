"""A real Jupyter kernel for tests: run cells, interrupt, kill, read what they show."""

import contextlib
import queue
import re
import time

from jupyter_client.manager import start_new_kernel

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Kernel:
    """One kernel; `run` gives back the messages that a cell produced."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(startup_timeout=60)
        self.pid = self.manager.provisioner.process.pid

    def send(self, code):
        return self.client.execute(code)

    def run(self, code, seconds=60.0):
        """Run a cell to its end."""
        return self.finish(self.send(code), seconds)

    def finish(self, message_id, seconds=60.0, *, until=None):
        """Messages of a cell until it is idle, or until one satisfies `until`."""
        messages, stop = [], time.monotonic() + seconds
        while time.monotonic() < stop:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.5)
                if message["parent_header"].get("msg_id") != message_id:
                    continue
                messages.append(message)
                idle = message["content"].get("execution_state") == "idle"
                if idle or (until and until(message)):
                    return messages
        raise TimeoutError(f"the cell did not end in {seconds} s: {messages}")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def error(messages):
    """The text of the error that a cell ended with, without colours."""
    errors = [m["content"] for m in messages if m["msg_type"] == "error"]
    return _ESCAPES.sub("", "\n".join(errors[0]["traceback"])) if errors else None


def shown(messages, kind="text/plain"):
    """What a cell shows at its end: streams, displays in their last state, results."""
    texts = {}
    for number, message in enumerate(messages):
        content = message["content"]
        if message["msg_type"] == "stream":
            texts[number] = content["text"]
        elif "data" in content:
            key = content.get("transient", {}).get("display_id", number)
            texts[key] = content["data"].get(kind, "")
    return "\n".join(texts.values())
