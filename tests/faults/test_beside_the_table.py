"""Faults that the table does not list, and those that need no kernel."""

import os
import sys
import tempfile
import textwrap
import threading
import time

import psutil
import pytest

from course_lib.errors import LaunchError, LaunchInterrupted, LaunchTimeout
from course_lib.launching.launcher import launch
from tests import forked
from tests.faults.cells import fault
from tests.kernels import Kernel
from tests.leftovers import becomes, lives

pytestmark = pytest.mark.faults


def test_a_broken_standard_output_does_not_end_the_other_ranks():
    class Tee:
        def write(self, text):
            pass

    def train(rank, world_size):
        if rank == 1:
            sys.stdout = Tee()
        time.sleep(0.5 * (1 - rank))
        return rank

    assert list(launch(train)) == [0, 1]


def test_threads_of_a_rank_are_waited_for():
    def train(rank, world_size):
        def late():
            time.sleep(0.2)
            print("late")

        threading.Thread(target=late).start()

    assert launch(train, world_size=1).output[0] == "late\n"


def test_shared_memory_that_a_rank_forgot_is_gone(nothing_left):
    def forget(rank, world_size):
        from multiprocessing import shared_memory

        return shared_memory.SharedMemory(create=True, size=100).name

    names = list(launch(forget, world_size=2))
    assert becomes(lambda: not any(os.path.exists(f"/dev/shm/{n}") for n in names))


def test_temporary_folders_of_a_rank_are_gone():
    def keep(rank, world_size):
        sys.kept = tempfile.TemporaryDirectory()
        return sys.kept.name

    assert not any(map(os.path.exists, launch(keep, world_size=2)))


def test_an_interrupt_can_not_be_swallowed_by_mistake():
    assert not issubclass(LaunchInterrupted, Exception)


def test_a_timeout_shows_where_each_rank_is(kernel):
    text = fault(kernel, "time.sleep(1000)", "cl.launch(train, timeout=5)")
    assert "train on 2 ranks: not done after 5 s" in text
    assert "rank 0 waits in all_reduce: cell In[" in text
    assert "dist.all_reduce(torch.ones(3))" in text
    assert "rank 1 was in cell In[" in text and "time.sleep(1000)" in text


def test_importing_the_package_in_a_kernel_starts_the_server():
    kernel = Kernel(within=["env"])  # it is started, not forked
    try:
        kernel.run("import course_lib")
        own = psutil.Process(kernel.pid)

        def commands():  # that of a process which is being started is empty at first
            return [" ".join(child.cmdline()) for child in own.children()]

        assert becomes(lambda: [forked.SERVER in one for one in commands()] == [True])
    finally:
        kernel.close()


def test_slow_ranks_are_stopped_when_another_one_fails():
    def train(rank, world_size):
        if rank == 1:
            raise ValueError("no data")
        time.sleep(1000)

    with pytest.raises(
        LaunchError, match="rank 1 of 4 raised ValueError: no data"
    ) as caught:
        launch(train, world_size=4)
    assert caught.value.rank == 1


def test_a_rank_that_has_not_started_yet_is_not_ended_by_the_question_where_it_is():
    with pytest.raises(LaunchTimeout) as caught:
        launch(lambda rank, world_size: time.sleep(1000), timeout=1e-6)
    assert "had ended" not in str(caught.value)


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setenv("COURSE_LIB_PLAIN", "1")


def test_without_the_server_results_and_output_come_back(plain):
    def speak(rank, world_size):
        print("hello", rank)
        return rank * 10

    results = launch(speak, world_size=2)
    assert list(results) == [0, 10]
    assert results.output[1] == "hello 1\n"


def test_without_the_server_a_failure_is_named(plain):
    def train(rank, world_size):
        if rank == 1:
            os._exit(7)
        time.sleep(1000)

    with pytest.raises(LaunchError, match="rank 1 of 2 ended with exit code 7"):
        launch(train, world_size=2)


def test_without_the_server_a_timeout_is_kept(plain):
    # on a busy machine the rank may still import torch
    where = r"not done after 5 s\n\nrank 0.* (was in|has not) "
    with pytest.raises(LaunchTimeout, match=where):
        launch(lambda rank, world_size: time.sleep(1000), world_size=1, timeout=5)


def test_without_the_server_ranks_end_with_their_notebook(tmp_path):
    script = tmp_path / "hang.py"
    script.write_text(
        textwrap.dedent("""
        import os, time
        os.environ["COURSE_LIB_PLAIN"] = "1"
        import course_lib as cl
        cl.launch(lambda rank, world_size: (print("up", flush=True), time.sleep(1000)))
        """)
    )
    process = psutil.Popen([os.sys.executable, str(script)], stdout=-1, text=True)
    assert "up" in process.stdout.readline()
    below = process.children(recursive=True)
    process.kill()
    process.wait()
    assert len(below) == 2
    assert becomes(lambda: not any(lives(child) for child in below))
