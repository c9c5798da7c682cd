"""The Linux calls below the launcher."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import torch

from course_lib.system import linux, processes
from tests.leftovers import becomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def test_memory_keeps_its_contents_when_it_moves_to_large_pages():
    numbers = torch.arange(4_000_000)
    linux.use_huge_pages()
    assert torch.equal(numbers, torch.arange(4_000_000))


def test_small_objects_lie_together_though_much_is_loaded_between_them():
    # in a process of its own, whose memory is not yet in pieces
    code = """
import mmap
from course_lib.system import linux
linux.keep_together()
objects, between = [], []
for _ in range(24):
    objects += [[] for _ in range(2_000)]
    between.append(mmap.mmap(-1, 1 << 20))
pieces = [line.split()[0].split("-") for line in open("/proc/self/maps")]
pieces = [(int(first, 16), int(last, 16)) for first, last in pieces]
counts = [sum(p[0] <= id(o) < p[1] for o in objects) for p in pieces]
print(max(counts) / len(objects))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) > 0.7, done.stderr


def test_children_are_those_of_this_process():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        assert child.pid in processes.children()
        assert os.getpid() not in processes.children()
    finally:
        child.kill()
        child.wait()


def test_a_whole_family_is_killed_though_its_members_left_the_session():
    # in a process of its own, because it adopts and kills everything below it
    code = """
import subprocess, time
from course_lib.system import linux, processes
from tests.leftovers import becomes
linux.adopt_orphans()
nested = "setsid sleep 4711 & setsid sh -c 'setsid sleep 4712 & sleep 4713' & wait"
parent = subprocess.Popen(["setsid", "sh", "-c", nested], start_new_session=True)
sleepers = ["pgrep", "-f", "^sleep 471[123]$"]
while len(subprocess.run(sleepers, capture_output=True).stdout.split()) < 3:
    time.sleep(0.01)
linux.kill_children()
print(processes.children())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    found = subprocess.run(["pgrep", "-f", "^sleep 471[123]$"], capture_output=True)
    assert found.stdout == b""


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "1000"])
    yield child.pid
    child.kill()
    child.wait()


def test_a_sleeping_process_rests_and_a_stopped_one_is_told_apart(sleeper):
    assert becomes(lambda: processes.activity(sleeper).state == "S")
    before = processes.activity(sleeper).seconds
    os.kill(sleeper, signal.SIGSTOP)
    assert becomes(lambda: processes.activity(sleeper).state == "T")
    assert processes.activity(sleeper).seconds - before < 0.1


def test_the_time_that_all_threads_compute_is_counted():
    before, until = processes.activity(os.getpid()).seconds, time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert processes.activity(os.getpid()).seconds - before >= 0.09


def test_a_main_thread_that_computes_could_run_all_that_time():
    before, began = processes.runnable(os.getpid()), time.thread_time()
    while time.thread_time() - began < 0.05:
        pass
    assert processes.runnable(os.getpid()) - before > 0.04


def test_memory_that_two_processes_share_counts_half_in_each():
    kept = bytes(bytearray(os.urandom(1 << 16) * 1024))  # 64 MB
    before = processes.proportional(os.getpid())
    child = subprocess_that_shares()
    try:
        assert processes.resident(os.getpid()) > len(kept)
        assert before - processes.proportional(os.getpid()) > len(kept) / 3
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def subprocess_that_shares():
    """A fork of this process that sleeps: its number."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


def test_a_process_that_is_gone_does_nothing(sleeper):
    assert processes.activity(1 << 22) is None
    assert not processes.catches(1 << 22, signal.SIGINT)


def test_a_child_that_has_ended_is_told_with_its_exit_code(sleeper):
    assert processes.exit_code(sleeper) is None
    os.kill(sleeper, signal.SIGKILL)
    assert becomes(lambda: processes.exit_code(sleeper) == -signal.SIGKILL)


def test_a_signal_that_would_end_a_process_is_told_apart(sleeper):
    assert processes.catches(os.getpid(), signal.SIGINT)
    assert becomes(lambda: processes.activity(sleeper).state == "S")
    assert not processes.catches(sleeper, signal.SIGINT)


def test_orphans_are_killed_and_children_of_our_own_are_not():
    code = """
import os, subprocess, time
from course_lib.system import linux, processes
linux.adopt_orphans()
own = subprocess.Popen(["sleep", "4714"])
agent = subprocess.Popen(["sh", "-c", "setsid sleep 4715 & wait"])
while len(processes.descendants()) < 3:
    time.sleep(0.01)
agent.kill()
agent.wait()
linux.kill_orphans([own.pid])
print(processes.children() == [own.pid], own.poll())
own.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True None\n", done.stderr


def test_a_process_is_busy_while_one_that_it_forked_is():
    with subprocess.Popen(["sh", "-c", "(while :; do :; done); true"]) as waiting:
        assert becomes(lambda: processes.descendants(waiting.pid))
        assert becomes(lambda: processes.state(waiting.pid) == "S")
        (family,) = processes.families([waiting.pid])
        alone = processes.activity(waiting.pid)
        assert becomes(
            lambda: processes.together(alone, family).seconds > alone.seconds + 0.1
        )
        assert becomes(lambda: processes.together(alone, family).state == "R")
        for pid in (*family, waiting.pid):
            os.kill(pid, signal.SIGKILL)


SHARE = """
import torch
torch.multiprocessing.set_sharing_strategy("file_system")
x = torch.ones(3).share_memory_()
print(x.untyped_storage()._share_filename_cpu_()[1].decode(), flush=True)
input()
"""


@pytest.mark.parametrize("patience", [5.0, 0.0], ids=["usual", "busy machine"])
def test_what_a_killed_process_shared_is_removed(monkeypatch, patience):
    # the name of a socket has at most 107 characters
    folder = tempfile.TemporaryDirectory(prefix="shared-")
    # in a process of its own, as above
    code = f"""
import glob, os, subprocess, sys, time
from course_lib.system import linux, processes
linux._TIDYING = {patience}  # at 0 the time is over before the first look
linux.adopt_orphans()
rank = subprocess.Popen([sys.executable, "-c", {SHARE!r}], stdin=-1, stdout=-1)
shared = "/dev/shm" + rank.stdout.readline().decode().strip()
folders = os.path.join(os.environ["TMPDIR"], "torch-shm-dir-*")
print(os.path.exists(shared), len(glob.glob(folders)))
processes.remove_leftovers(linux.kill_children(), 0.0)
print(os.path.exists(shared), len(glob.glob(folders)))
"""
    monkeypatch.setenv("TMPDIR", folder.name)
    with folder:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "True 1\nFalse 0\n", done.stderr
