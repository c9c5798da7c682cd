"""The warm process server: it imports torch once, and forks an agent per launch."""

import gc
import linecache
import os
import select
import signal
import socket
import sys
from contextlib import suppress

from course_lib.system import linux, sockets

# what `ahead` names: torch._dynamo would cost a rank a second or two at first use
_NEEDED_OFTEN = (
    "course_lib.tracing.ranks",
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
_IDLE = 0.3  # seconds without a launch until the next of these is imported


def main(control: int, owner: int, *preload: str) -> None:
    """Serve the process `owner` until it ends."""
    before_imports()
    warm_up()
    serve(socket.socket(fileno=control), owner, wanted=ahead(preload))


def serve(control: socket.socket, owner: int, *, wanted=()) -> None:
    """Fork an agent for each launch of `owner`; import what is wanted meanwhile."""
    wanted, agents, owner = list(wanted), {}, os.pidfd_open(owner)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # until a rank can tell where it is, the question must not end it
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.breakpointhook = sys.__breakpointhook__  # a kernel's is its debugger's
    linux.adopt_orphans()  # of an agent that is killed
    linux.meet_without_files()  # so will the ranks
    while True:
        files, patience = [control, owner, *agents], _IDLE if wanted else None
        busy, _, _ = select.select(files, [], [], patience)
        for ended in agents.keys() & set(busy):
            _bury(agents, ended)
        if owner in busy:
            break
        if control in busy:
            if not _serve(control, owner, agents):
                break
        elif wanted and not busy:
            import_quietly(wanted.pop(0))
            if not wanted:
                complete()
    for ended in list(agents):
        _bury(agents, ended)


def ahead(preload=()) -> list[str]:
    """What to import while nobody waits; `preload` names more, as the checks.

    Nothing if the variable `COURSE_LIB_AHEAD` is 0.
    """
    if os.environ.get("COURSE_LIB_AHEAD") == "0":
        return []
    return [*_NEEDED_OFTEN, *preload]


def _serve(control, owner, agents):
    """Fork an agent for the next job; False when the notebook has gone."""
    from course_lib.launching import agent

    job, files = sockets.receive(control)
    if job is None:
        return False
    pid = os.fork()
    if pid == 0:
        control.close()
        for file in agents:
            os.close(file)
        agent.main(socket.socket(fileno=files[0]), owner, job, files=files[1:])
    for file in files:
        os.close(file)
    agents[os.pidfd_open(pid)] = pid
    return True


def _bury(agents, ended):
    """Wait for the end of an agent; kill what one that was killed left behind."""
    _, status = os.waitpid(agents.pop(ended), 0)
    os.close(ended)
    if status:
        linux.kill_orphans(agents.values())


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


def import_quietly(name: str) -> None:
    """Import a module, or go on without it."""
    try:
        __import__(name)
    except Exception:  # the ranks will say so, if they need it
        pass
    _settle()


def complete() -> None:
    """Once all is imported: what ranks read from files, and use first; large pages."""
    from course_lib import data

    # torch.manual_seed shows the lines from which it was called
    for name in sys.modules.keys() & _ON_THE_STACK:
        linecache.getlines(sys.modules[name].__file__)
    for use in (data.digits, _step, _forget_rules):
        with suppress(Exception):  # a rank that needs it will say what is wrong
            use()
    _settle()
    linux.use_huge_pages()


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
