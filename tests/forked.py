"""Kernels and servers for tests, forked from one process that has imported all.

A kernel, a server of ranks and a template of graders each import for some six seconds
of CPU, and most tests look at something else. Under `forking` they get a fork instead:
a child of this process as one that is started would be, with its command line,
variables and folder. So does each worker of pytest-xdist under `forking_workers`, and
it has templates of its own. Started ones are left to tests of starts, ends and
restarts, of what may be seen in a sandbox, and to JupyterLab.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from concurrent.futures import thread
from pathlib import Path
from unittest import mock

from execnet import gateway_base, gateway_io
from jupyter_client import localinterfaces
from jupyter_client.provisioning import local_provisioner

from course_lib.exercises import folders
from course_lib.grading.run import template
from course_lib.grading.run.kernel import Child
from course_lib.launching import client, forkserver, rank_process, surroundings
from course_lib.system import linux, sockets

_MODULE = ["-m", "ipykernel_launcher"]
# at its top level: what ranks show of their lines is the learner's, not this file's
_PROGRAM = f"""
import sys
sys.path[0] = {str(Path(__file__).parents[1])!r}
from tests import forked
forked.next_kernel(*map(int, sys.argv[1:]))
from course_lib.launching import client
from course_lib.grading.run import kernel
from ipykernel import kernelapp
try:
    client.use_server(kernel.KernelServer())
    kernelapp.launch_new_instance()
finally:
    forked.end()
"""
MARK = "forked.next_kernel"  # in the command line of all that comes from a template
SERVER = forkserver.__name__  # in that of a server of ranks
KERNELS, STANDING = set(), set()  # ids of kernels; of templates and of servers
_workers = []
WORLD = "FORKED_IN"  # a variable of a kernel: what is done first, in new namespaces
_LEAN = ("server", "worker")  # forks that need not know what kernels do
_NAMESPACES, _PRIVATE = 0x20000 | 0x4000000, 0x4000 | 0x40000  # mounts, host name
_lock, _start = threading.Lock(), client.ForkServer._start


@contextlib.contextmanager
def forking():
    """Let this process fork kernels, servers of ranks and templates of graders."""
    start = local_provisioner.launch_kernel

    def launch(command, **options):
        if command[:3] != [sys.executable, *_MODULE]:
            return start(command, **options)
        cwd = str(options.get("cwd") or os.getcwd())
        job = {"be": "kernel", "arguments": command[3:], "cwd": cwd}
        job["env"] = options["env"]
        forked = Forked(job)
        KERNELS.add(forked.pid)
        return forked

    with (
        mock.patch.object(local_provisioner, "launch_kernel", launch),
        mock.patch.object(client.ForkServer, "_start", _fork),
    ):
        yield


@contextlib.contextmanager
def starting():
    """Let servers and templates be started after all."""
    with mock.patch.object(client.ForkServer, "_start", _start):
        yield


def _fork(self, theirs):
    """A server that has imported all that it needs, forked, too."""
    job = {"be": "server" if self.module == SERVER else "template"}
    job |= {"owner": self.owner, "arguments": self.arguments, "env": self.environment}
    forked = Forked(job, [theirs.fileno(), self.log.fileno()])
    if self.module == SERVER:
        STANDING.add(forked.pid)
    return forked


@contextlib.contextmanager
def forking_workers():
    """Let workers of pytest-xdist be forked, too."""
    with mock.patch.object(gateway_io.Popen2IOMaster, "__init__", _start_worker):
        yield


def _start_worker(self, args, execmodel):
    """As execnet's own, which starts a process and talks to it by two pipes."""
    (read, theirs_out), (theirs_in, write) = os.pipe(), os.pipe()
    job = {"be": "worker", "code": args[-1], "arguments": [], "cwd": os.getcwd()}
    self.popen = Forked(job | {"env": dict(os.environ)}, [theirs_in, theirs_out, 2])
    _workers.append(self.popen)
    for file in (theirs_in, theirs_out):
        os.close(file)
    streams = os.fdopen(write, "wb"), os.fdopen(read, "rb")
    gateway_base.Popen2IO.__init__(self, *streams, execmodel)


def interrupt_workers() -> None:
    """Pass on a Ctrl-C to the workers."""
    for process in _workers:
        process.send_signal(signal.SIGINT)


class Forked(Child):
    """As much of `subprocess.Popen` as is needed of a process that was forked."""

    stdin = stdout = stderr = None

    def __init__(self, job, files=()):
        with _lock:
            kernels, lean = _templates()
            link = lean if job["be"] in _LEAN else kernels
            sockets.send(link, job, files)
            answer, _ = sockets.receive(link)
        super().__init__(answer["pid"])

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


@functools.cache
def _templates():
    """Links to this process's templates: of kernels, and of what need not know so much.

    They end when these are closed.
    """
    linux.adopt_orphans()  # a kernel's parent ends at once
    links, theirs = zip(sockets.pair(), sockets.pair(), strict=True)
    files = [link.fileno() for link in theirs]
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *map(str, files)],
        pass_fds=files,
        start_new_session=True,
        # read when it imports; on one thread, since with more tests wait for each other
        env=client.environment(JPY_PARENT_PID=str(os.getpid())),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for link in theirs:
        link.close()
    born, _ = sockets.receive(links[1])
    STANDING.update((process.pid, born["pid"]))

    def close():
        for link in links:
            link.close()
        process.wait()

    atexit.register(close)
    return links


def next_kernel(kernels: int, lean: int) -> None:
    """Fork for each job that comes; comes back in a kernel, which then is to start.

    Servers are forks of a process without what kernels alone need, so that their
    ranks, and there are thousands of them, begin and end faster.
    """
    kernels, lean = (socket.socket(fileno=file) for file in (kernels, lean))
    # half of nbformat's import, and nothing needs it
    sys.modules.setdefault("rfc3987_syntax", None)
    forkserver.before_imports()
    forkserver.warm_up()
    _import(folders.observing())
    if os.fork() == 0:
        kernels.close()
        sockets.send(lean, {"pid": os.getpid()})
        return _fork_for_each(lean)
    lean.close()
    _fork_for_each(kernels)


@functools.cache
def _know_kernels():
    os.environ.update(template.VARIABLES)  # read by some as they are imported
    localinterfaces.localhost()  # a kernel asks; what is found is kept
    # the backend of figures is set up by the first import in a kernel
    _import([name for name in template.NEEDED if "matplotlib" not in name])


def _import(names):
    for _ in forkserver.prepare(names):
        pass


def _fork_for_each(control):
    """Fork for each job that comes; comes back in a kernel."""
    while True:
        job, files = sockets.receive(control)
        if job is None:
            os._exit(0)
        if job["be"] not in _LEAN:
            _know_kernels()
        known, tell = os.pipe()
        between = os.fork()
        if between == 0:
            # its own parent is to be the test's process: this one ends
            if os.fork():
                os._exit(0)
            os.setsid()  # before anybody may ask for its group, to kill it
            os.write(tell, str(os.getpid()).encode())
            for file in (known, tell, control.detach()):
                os.close(file)
            return _become(job, files)
        for file in (tell, *files):
            os.close(file)
        os.waitpid(between, 0)
        sockets.send(control, {"pid": int(os.read(known, 20))})
        os.close(known)


def _become(job, files):
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None
    roles = {
        "kernel": _kernel,
        "python": _run,
        "server": _serve,
        "template": _fork_graders,
        "worker": _work,
    }
    roles[job["be"]](job, *files)


def _kernel(job):
    _as_started(job)
    if script := os.environ.pop(WORLD, ""):
        _change_the_world(script)
    # as `python -m ipykernel_launcher` has it
    sys.argv = ["ipykernel_launcher", *job["arguments"]]
    del sys.path[0]


def _as_started(job):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rank_process.forget_finalizers()
    surroundings.scatter_seeds()
    gc.enable()
    os.chdir(job["cwd"])


def _change_the_world(script):
    """What `unshare --mount --uts sh -ec script` does, in this process."""
    libc = linux.libc()
    if libc.unshare(_NAMESPACES) or libc.mount(b"none", b"/", None, _PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no namespaces of its own")
    subprocess.run(["sh", "-ec", script], check=True)


def _serve(job, control, log):
    try:
        _write_into(log, log)
        forkserver.serve_jobs(socket.socket(fileno=control), job["owner"])
    finally:
        os._exit(1)


def _fork_graders(job, control, log):
    try:
        _write_into(log, log)
        template.main(control, job["owner"], *job["arguments"])
        os._exit(0)
    finally:
        os._exit(1)


def _work(job, *files):
    """Be a worker of pytest, with templates of its own; comes back in a kernel."""
    global _templates
    links, theirs = zip(sockets.pair(), sockets.pair(), strict=True)
    for link in theirs:
        pid = os.fork()
        if pid == 0:
            for file in files:
                os.close(file)
            for other in {*links, *theirs} - {link}:
                other.close()
            return _fork_for_each(link)
        STANDING.add(pid)
        link.close()
    linux.adopt_orphans()
    _templates = functools.partial(tuple, links)
    os.dup2(files[0], 0)
    sys.stdin = open(0, closefd=False)
    os.close(files[0])
    _run(job, *files[1:])


def _run(job, out, err):
    code = 1
    try:
        _write_into(out, err)
        _as_started(job)
        sys.argv = ["-c", *job["arguments"]]
        exec(job["code"], {"__name__": "__main__"})
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()
        os._exit(code)


def fork_graders() -> None:
    """Let the templates of graders that this process starts be forks of it."""

    def fork(self, theirs):
        pid = os.fork()
        if pid == 0:
            os.setsid()
            self.control.close()
            os.environ.update(self.environment)
            # a thread of a pool has forked: what comes of it would wait for itself
            thread._threads_queues.clear()
            job = {"owner": self.owner, "arguments": self.arguments}
            _fork_graders(job, theirs.detach(), self.log.fileno())
        return Child(pid)

    template.Template._start = fork


def _write_into(out, err):
    for stream, file in ((1, out), (2, err)):
        os.dup2(file, stream)
    os.close(out)


def end():
    """End as Python does."""
    atexit._run_exitfuncs()
    os._exit(0)
