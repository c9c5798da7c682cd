"""Shared fixtures: what is left of processes and shared files."""

import functools
import glob
import os
import tempfile
import time

import psutil
import pytest


def becomes(condition, seconds=20.0):
    """True as soon as `condition()` is; False if it is not within a generous time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def descendants(pid=None):
    """Every living process below `pid` (this process), the process server left out."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if _counts(process)]


def _counts(process):
    try:
        command = " ".join(process.cmdline())
        is_server = "server.main" in command and process.ppid() != _server_of(process)
        return process.status() != psutil.STATUS_ZOMBIE and not is_server
    except psutil.NoSuchProcess:
        return False


def _server_of(process):
    """The parent if it is a process server: then `process` is one of its agents."""
    try:
        parent = process.parent()
        return (
            parent.pid
            if parent and "server.main" in " ".join(parent.cmdline())
            else None
        )
    except psutil.NoSuchProcess:
        return None


def shared_files():
    """Shared memory and temporary files under a name of ours, torch's or Python's."""
    names = ("/dev/shm/torch_*", "/dev/shm/psm_*", "/dev/shm/*course_lib*")
    patterns = (*names, os.path.join(tempfile.gettempdir(), "course_lib*"))
    return {path for pattern in patterns for path in glob.glob(pattern)}


@pytest.fixture
def nothing_left():
    """After the test no process and no shared file of it may be there."""
    before = shared_files()
    known = {process.pid for process in descendants()}

    def clean():
        new = [process for process in descendants() if process.pid not in known]
        return not new and not shared_files() - before

    yield clean
    assert becomes(clean, seconds=5), (descendants(), shared_files() - before)


@pytest.fixture
def virtual(monkeypatch):
    """`devices`, but virtual GPUs where there are real ones, too, and all are empty."""
    import torch

    from course_lib.accelerators import devices
    from course_lib.virtual import machine

    # what a test that failed keeps alive stays with the devices of that test
    monkeypatch.setattr(machine, "places", [])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    return functools.partial(devices, quiet=True)


@pytest.fixture
def devs(virtual):
    """Three virtual GPUs, each with the memory of an A100."""
    return virtual(3)
