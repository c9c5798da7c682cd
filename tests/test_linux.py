"""The Linux calls below the launcher."""

import os
import subprocess
import sys

import pytest
import torch

from course_lib import linux

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def test_memory_keeps_its_contents_when_it_moves_to_large_pages():
    numbers = torch.arange(4_000_000)
    linux.use_huge_pages()
    assert torch.equal(numbers, torch.arange(4_000_000))


def test_children_are_those_of_this_process():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        assert child.pid in linux.children()
        assert os.getpid() not in linux.children()
    finally:
        child.kill()
        child.wait()


def test_a_whole_family_is_killed_though_its_members_left_the_session():
    # in a process of its own, because it adopts and kills everything below it
    code = """
import subprocess, time
from course_lib import linux
linux.adopt_orphans()
nested = "setsid sleep 4711 & setsid sh -c 'setsid sleep 4712 & sleep 4713' & wait"
parent = subprocess.Popen(["setsid", "sh", "-c", nested], start_new_session=True)
sleepers = ["pgrep", "-f", "^sleep 471[123]$"]
while len(subprocess.run(sleepers, capture_output=True).stdout.split()) < 3:
    time.sleep(0.01)
linux.kill_children()
print(linux.children())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    found = subprocess.run(["pgrep", "-f", "^sleep 471[123]$"], capture_output=True)
    assert found.stdout == b""
