"""A real Jupyter kernel for tests: run cells, interrupt, kill, read what they show."""

import atexit
import contextlib
import os
import queue
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from jupyter_client.manager import KernelManager

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
# every kernel has a temporary folder of its own below this one
FOLDERS = Path(tempfile.mkdtemp(prefix="kernels-"))
atexit.register(shutil.rmtree, FOLDERS, ignore_errors=True)


class Cells:
    """Runs cells in the kernel of `client`; `run` gives back what they produced."""

    def __init__(self, client):
        self.client, self.ended = client, None

    def send(self, code):
        return self.client.execute(code)

    def run(self, code, seconds=120.0):
        """Run a cell to its end."""
        return self.finish(self.send(code), seconds)

    def finish(self, message_id, seconds=120.0, *, until=None):
        """Messages of a cell until its end; if asked, until one satisfies `until`."""
        messages, stop = [], time.monotonic() + seconds
        while time.monotonic() < stop:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.5)
                if message["parent_header"].get("msg_id") != message_id:
                    continue
                messages.append(message)
                idle = message["content"].get("execution_state") == "idle"
                assert not (idle and until), f"it has ended: {error(messages)}"
                if idle or (until and until(message)):
                    self.ended = time.monotonic()
                    return messages
        told = [f"{m['msg_type']}: {str(m['content'])[:500]}" for m in messages[-5:]]
        raise TimeoutError(f"the cell did not end in {seconds} s, the last: {told}")

    def until_shown(self, message_id, *texts):
        """Messages of a cell until one shows all `texts`."""

        def shows(message):
            code = message["msg_type"] == "execute_input"
            return not code and all(text in str(message) for text in texts)

        return self.finish(message_id, until=shows)


class Kernel(Cells):
    """One kernel of its own: with variables `env`, started by the command `within`."""

    def __init__(self, *, env=None, within=(), cwd=None):
        self.tmp = Path(tempfile.mkdtemp(dir=FOLDERS))
        # a cell writes here when its fault happened; not a file that is left behind
        self.mark = self.tmp.with_suffix(".mark")
        self.manager = KernelManager()
        _, *rest = self.manager.kernel_spec.argv
        self.manager.kernel_spec.argv = [*within, sys.executable, *rest]
        places = {"TMPDIR": str(self.tmp), "FAULT_MARK": str(self.mark)}
        self.manager.start_kernel(env={**os.environ, **places, **(env or {})}, cwd=cwd)
        super().__init__(self.manager.client())
        self._connect()

    def _connect(self):
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=60)
        except RuntimeError:
            self.close()
            raise

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    @property
    def waited(self):
        """Seconds from the fault, as its cell noted it, to the end of the cell."""
        return self.ended - float(self.mark.read_text().split()[-1])

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
