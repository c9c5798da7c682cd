"""What an error says when a rank found no room."""

import os
import tempfile
from types import SimpleNamespace

import pytest

from course_lib.launching import failures

NO_ROOM = "[Errno 28] No space left on device"


@pytest.fixture
def free(monkeypatch):
    """Bytes free by folder; elsewhere there are plenty."""
    room = {}

    def statvfs(folder):
        bytes_free = room.get(folder, 1 << 40)
        return SimpleNamespace(f_bavail=bytes_free, f_frsize=1, f_blocks=64_000_000)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/my/tmp")
    return room


def test_an_error_of_another_kind_gets_no_advice(free):
    free["/dev/shm"] = 0
    assert failures.advice("shape '[7]' is invalid") == []


def test_full_shared_memory_is_told_with_its_size_and_what_helps(free):
    free["/dev/shm"] = 500_000
    (line,) = failures.advice(NO_ROOM)
    assert line.startswith("Shared memory, /dev/shm, has 0.5 MB of 64.0 MB free.")
    assert "num_workers=0" in line and "--shm-size" in line


def test_a_worker_that_found_no_shared_memory_needs_no_full_one(free):
    free["/dev/shm"] = 30_000_000
    (line,) = failures.advice(
        "DataLoader worker (pid 7) is killed by signal: Bus error"
    )
    # all of it may be free again, and there was not enough all the same
    told = "has 30.0 MB of 64.0 MB free now, and had less when it was asked for more."
    assert told in line and "num_workers * prefetch_factor batches" in line


def test_a_full_temporary_folder_is_named(free):
    free["/my/tmp"] = 0
    (line,) = failures.advice(NO_ROOM)
    assert line.startswith("/my/tmp has no room left")


def test_a_device_elsewhere_that_is_full_gets_no_wrong_advice(free):
    assert failures.advice(NO_ROOM) == []


def test_a_folder_that_cannot_be_asked_is_not_full(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda folder: os.stat("/no/such/place"))
    assert failures.advice(NO_ROOM) == []
