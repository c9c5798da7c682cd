"""The Linux calls below the launcher."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from course_lib import linux, proc
from tests.leftovers import becomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def test_memory_keeps_its_contents_when_it_moves_to_large_pages():
    numbers = torch.arange(4_000_000)
    linux.use_huge_pages()
    assert torch.equal(numbers, torch.arange(4_000_000))


def test_children_are_those_of_this_process():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        assert child.pid in proc.children()
        assert os.getpid() not in proc.children()
    finally:
        child.kill()
        child.wait()


def test_a_whole_family_is_killed_though_its_members_left_the_session():
    # in a process of its own, because it adopts and kills everything below it
    code = """
import subprocess, time
from course_lib import linux, proc
from tests.leftovers import becomes
linux.adopt_orphans()
nested = "setsid sleep 4711 & setsid sh -c 'setsid sleep 4712 & sleep 4713' & wait"
parent = subprocess.Popen(["setsid", "sh", "-c", nested], start_new_session=True)
sleepers = ["pgrep", "-f", "^sleep 471[123]$"]
while len(subprocess.run(sleepers, capture_output=True).stdout.split()) < 3:
    time.sleep(0.01)
linux.kill_children()
print(proc.children())
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
    assert becomes(lambda: proc.activity(sleeper).state == "S")
    before = proc.activity(sleeper).seconds
    os.kill(sleeper, signal.SIGSTOP)
    assert becomes(lambda: proc.activity(sleeper).state == "T")
    assert proc.activity(sleeper).seconds - before < 0.1


def test_the_time_that_all_threads_compute_is_counted():
    before, until = proc.activity(os.getpid()).seconds, time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert proc.activity(os.getpid()).seconds - before >= 0.09


def test_a_process_that_is_gone_does_nothing(sleeper):
    assert proc.activity(1 << 22) is None
    assert not proc.catches(1 << 22, signal.SIGINT)


def test_a_signal_that_would_end_a_process_is_told_apart(sleeper):
    assert proc.catches(os.getpid(), signal.SIGINT)
    assert becomes(lambda: proc.activity(sleeper).state == "S")
    assert not proc.catches(sleeper, signal.SIGINT)
