"""Kernels for tests, forked from one process that has imported what they need.

A kernel and the server of its ranks import for some six seconds of CPU, and most tests
look at something else. Under `forking` they get a fork instead: a child of this process
as one that is started would be, with its command line, variables and folder. Started
kernels are left to tests of starts, ends and restarts, and to JupyterLab.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from unittest import mock

from jupyter_client.provisioning import local_provisioner

from course_lib import linux, server, wire, worker, zygote

_MODULE = ["-m", "ipykernel_launcher"]
# at its top level: what ranks show of their lines is the learner's, not this file's
_PROGRAM = f"""
import sys
sys.path[0] = {str(Path(__file__).parents[1])!r}
from tests import forked
forked.become_kernel(**forked.next_job(int(sys.argv[1])))
from course_lib import server
from course_lib.grading import kernel
from ipykernel import kernelapp
try:
    server.use(kernel.Forked())
    kernelapp.launch_new_instance()
finally:
    forked.end()
"""
_NEEDED = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "sklearn.datasets",
    "course_lib.exercises",
    "course_lib.plots",
)
_INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
_lock = threading.Lock()


@contextlib.contextmanager
def forking():
    """Let jupyter_client fork Python kernels; what else it starts, it starts."""
    start = local_provisioner.launch_kernel

    def launch(command, **options):
        if command[0] != sys.executable or _MODULE != command[-4:-2]:
            return start(command, **options)
        return Forked(command[-2:], options["env"], options.get("cwd"))

    with mock.patch.object(local_provisioner, "launch_kernel", launch):
        yield


class Forked:
    """As much of `subprocess.Popen` as jupyter_client needs, of a forked kernel."""

    stdin = stdout = stderr = None

    def __init__(self, arguments, env, cwd):
        job = {"arguments": arguments, "env": env, "cwd": str(cwd or os.getcwd())}
        with _lock:
            template = _template()
            wire.send(template, job)
            answer, _ = wire.receive(template)
        self.pid, self.returncode = answer["pid"], None

    def poll(self):
        if self.returncode is None:
            self._wait(os.WNOHANG)
        return self.returncode

    def wait(self):
        if self.returncode is None:
            self._wait(0)
        return self.returncode

    def _wait(self, how):
        pid, status = os.waitpid(self.pid, how)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


@functools.cache
def _template():
    """The link to this process's template, which ends when it is closed."""
    linux.adopt_orphans()  # a kernel's parent ends at once
    control, theirs = wire.pair()
    # read when it imports; on one thread, since with more tests wait for each other
    read = {**server.ENVIRONMENT, "JPY_PARENT_PID": str(os.getpid()), **_INLINE}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**server.QUIET, **os.environ, **read},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close():
        control.close()
        process.wait()

    atexit.register(close)
    return control


def next_job(control: int) -> dict:
    """Fork for each job that comes; comes back in the kernel, with its job."""
    control = socket.socket(fileno=control)
    for name in (*_NEEDED, *zygote.ahead()):
        importlib.import_module(name)
    zygote.warm_up()
    while (job := wire.receive(control)[0]) is not None:
        known, tell = os.pipe()
        between = os.fork()
        if between == 0:
            # its own parent is to be the test's process: this one ends
            if kernel := os.fork():
                os.write(tell, str(kernel).encode())
                os._exit(0)
            for file in (known, tell, control.detach()):
                os.close(file)
            return job
        os.waitpid(between, 0)
        wire.send(control, {"pid": int(os.read(known, 20))})
        for file in (known, tell):
            os.close(file)
    os._exit(0)


def become_kernel(arguments, *, env, cwd):
    """Have what `python -m ipykernel_launcher` has in a new process."""
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker.scatter_seeds()
    gc.enable()
    sys.argv = ["ipykernel_launcher", *arguments]
    del sys.path[0]


def end():
    """End as Python does."""
    atexit._run_exitfuncs()
    os._exit(0)
