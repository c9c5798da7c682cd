"""The fork server's process: it imports once what its jobs need, and forks for each."""

import gc
import importlib
import linecache
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress

from course_lib.launching import protocol
from course_lib.system import linux

# first what ranks need most; torch._dynamo, which the first step of an optimizer
# imports, in pieces: a job that comes meanwhile waits for the end of one
PRELOAD = (
    "course_lib.tracing.rank_recording",
    "sympy",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "course_lib.accelerators.vgpu",
)
_ON_THE_STACK = {
    "course_lib.launching.agent",
    "course_lib.launching.rank_process",
    "course_lib.launching.forkserver",
    "torch._compile",
    "torch._dynamo.eval_frame",
    "torch.cuda",
    "torch.cuda.random",
    "torch.mtia",
    "torch.random",
    "torch.xpu",
    "torch.xpu.random",
}
_IDLE = 0.3  # seconds after a job until the next piece is imported


def main(control: str, owner: str, *preload: str) -> None:
    """Serve the process `owner` until it ends."""
    before_imports()
    warm_up()
    serve_jobs(socket.socket(fileno=int(control)), int(owner), preload=preload)


def serve_jobs(control: socket.socket, owner: int, *, preload=()) -> None:
    """Fork a child for each job of `owner`; import `preload` while no job waits.

    A job names a module: the child runs its `main(link, arguments, *, files, owner)`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.adopt_orphans()  # of a child that is killed
    children = {}
    owner = os.pidfd_open(owner)
    pieces = prepare(preload)
    patience: float | None = 0
    while True:
        busy, _, _ = select.select([control, owner, *children], [], [], patience)
        for ended in children.keys() & set(busy):
            _bury(children, ended)
        if owner in busy or (control in busy and not _fork(control, owner, children)):
            break
        if not busy:
            patience = next(pieces, None)
        elif patience is not None:
            patience = _IDLE
    for ended in list(children):
        _bury(children, ended)


def _fork(control, owner, children):
    """Fork a child for the next job; False when there will be none."""
    child, files = protocol.receive(control)
    if child is None:
        return False
    pid = os.fork()
    if pid == 0:
        control.close()
        for file in children:
            os.close(file)
        _run(child, files, owner)
    for file in files:
        os.close(file)
    children[os.pidfd_open(pid)] = pid
    return True


def _run(child, files, owner):
    try:
        link, *files = files
        module = importlib.import_module(child.module)
        link = socket.socket(fileno=link)
        module.main(link, child.arguments, files=files, owner=owner)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # never to become a second server


def _bury(children, ended):
    """Wait for the end of a child; kill what one that was killed left behind."""
    _, status = os.waitpid(children.pop(ended), 0)
    os.close(ended)
    if status:
        linux.kill_orphans(children.values())


def before_imports() -> None:
    """Save a fifth of their time: they leave no garbage. And memory in large pages."""
    gc.disable()
    linux.keep_together()


def warm_up() -> None:
    """Pay once for what each rank would pay for: imports, first uses, name look-ups."""
    import io

    import torch.distributed

    from course_lib.launching import agent, payload  # noqa: F401  (agent: for the launches)

    for value in (lambda: None), torch.zeros(1):
        buffer = io.BytesIO()
        payload.dump(value, buffer)
        buffer.seek(0)
        payload.load(buffer)
    torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    _settle()


def prepare(preload=()) -> Iterator[float]:
    """Import modules and use what ranks use first, in pieces that a job can wait for.

    After each piece comes how many seconds to wait for a job before the next.
    """
    missing = [name for name in (*PRELOAD, *preload) if name not in sys.modules]
    for name in missing:
        with suppress(Exception):  # the ranks will say so, if they need it
            importlib.import_module(name)
        _settle()
        yield 0
    if missing:
        _complete()
        yield 0
        for _ in linux.use_huge_pages():
            yield 0


def _complete() -> None:
    """Read and use once what ranks read from files, and use first."""
    from course_lib import data

    # torch.manual_seed shows the lines from which it was called
    for name in sys.modules.keys() & _ON_THE_STACK:
        linecache.getlines(sys.modules[name].__file__ or "")
    for use in (data.digits, _step, _forget_rules):
        with suppress(Exception):  # a rank that needs it will say what is wrong
            use()
    _settle()


def _step():
    # the first one looks at all of PyTorch; without a backward, which starts threads
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.SGD([weight], lr=1.0).step()


def _forget_rules():
    # init_process_group clears what torch._dynamo has looked up, page by page
    from torch._dynamo import trace_rules

    trace_rules.clear_lru_cache()


def _settle():
    """Keep the collector from touching, and so copying, the pages that ranks share."""
    gc.collect()
    gc.freeze()
    gc.disable()
