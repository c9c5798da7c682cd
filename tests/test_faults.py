"""Whatever goes wrong in a rank or the kernel: one clear error, nothing left behind."""

import atexit
import os
import signal
import sys
import tempfile
import textwrap
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist

from course_lib import server
from course_lib.errors import LaunchError, LaunchInterrupted, LaunchTimeout
from course_lib.launcher import launch
from tests.kernels import Kernel, error, shown
from tests.leftovers import becomes

pytestmark = pytest.mark.faults

PRELUDE = """
import course_lib as cl, torch, torch.distributed as dist
import time, os, sys, ctypes, threading
"""


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run(PRELUDE)
    kernel.run("cl.launch(lambda rank, world_size: rank)")
    yield kernel
    kernel.close()


@pytest.fixture(autouse=True)
def clean(request, nothing_left):
    return nothing_left


def fault(kernel, body, call="cl.launch(train)"):
    """Run a cell whose rank 1 does `body` while rank 0 waits in an all-reduce."""
    cell = f"""
def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        {body}
    dist.all_reduce(torch.ones(3))

{call}"""
    return error(kernel.run(cell))


def test_a_rank_that_raises_is_shown_with_the_line_of_the_cell(kernel):
    text = fault(kernel, "missing + 1")
    assert "rank 1 of 2 raised NameError: name 'missing' is not defined" in text
    assert "-->   4          missing + 1" in text
    assert "cell In[" in text
    assert "rank 0 of" not in text


def test_library_frames_are_folded(kernel):
    text = fault(kernel, "torch.nn.Linear(2, 3)(torch.ones(5, 7))")
    assert "mat1 and mat2 shapes cannot be multiplied" in text
    assert "more in libraries" in text
    assert "site-packages" not in text


def test_the_whole_traceback_can_be_asked_for(kernel):
    fault(kernel, "torch.nn.Linear(2, 3)(torch.ones(5, 7))")
    text = shown(kernel.run("print(cl.last_error().details)"))
    assert "torch/nn/modules/linear.py" in text


def test_a_rank_that_still_ran_is_shown_with_its_line(kernel):
    cell = """
def train(rank, world_size):
    if rank == 0:
        time.sleep(1000)
    1 / 0

cl.launch(train)"""
    text = error(kernel.run(cell))
    assert "rank 1 of 2 raised ZeroDivisionError" in text
    assert "rank 0 was stopped in cell In[" in text
    assert "line 3, in train: time.sleep(1000)" in text


@pytest.mark.parametrize(
    "body, message",
    [
        ("sys.exit(0)", "rank 1 of 2 left by sys.exit(0) before train returned"),
        ("sys.exit(3)", "rank 1 of 2 left by sys.exit(3) before train returned"),
        ("os._exit(7)", "rank 1 of 2 ended with exit code 7"),
        ("ctypes.string_at(0)", "rank 1 of 2 was killed by SIGSEGV"),
        ("os.abort()", "rank 1 of 2 was killed by SIGABRT"),
        ("os.kill(os.getpid(), 9)", "rank 1 of 2 was killed by SIGKILL"),
        ("return", "had returned from train already"),
        ("raise KeyboardInterrupt", "rank 1 of 2 raised KeyboardInterrupt"),
    ],
)
def test_a_rank_that_leaves_is_named_with_the_way_it_went(kernel, body, message):
    assert message in fault(kernel, body)


def test_different_shapes_are_named_as_a_likely_reason(kernel):
    text = fault(kernel, "dist.all_reduce(torch.ones(1000))")
    assert "do all ranks pass tensors of the same shape" in text


def test_the_rank_that_was_killed_is_named_when_the_others_raise_their_own_error():
    def train(rank, world_size):
        dist.init_process_group("gloo")
        if rank == 1:
            os.kill(os.getpid(), 9)
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            raise RuntimeError("training failed") from error

    for _ in range(5):
        with pytest.raises(LaunchError, match="rank 1 of 4 was killed by SIGKILL"):
            launch(train, world_size=4)


def test_a_crash_after_the_function_returned_is_named():
    def train(rank, world_size):
        if rank == 1:
            atexit.register(os._exit, 3)
        time.sleep(3 * (1 - rank))
        return rank

    with pytest.raises(LaunchError, match="rank 1 of 2 ended with exit code 3 after"):
        launch(train)


@pytest.mark.parametrize("leave", [lambda: sys.exit(0), lambda: os._exit(0)])
def test_leaving_early_without_an_error_is_noticed_at_once(leave):
    def train(rank, world_size):
        if rank == 1:
            leave()
        time.sleep(1000)

    with pytest.raises(LaunchError, match="rank 1 of 2 .* before train returned"):
        launch(train)


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


def test_a_value_that_cannot_be_read_back_is_named():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a + b)

    with pytest.raises(LaunchError, match="cannot be sent back to the notebook"):
        launch(lambda rank, world_size: Odd("a", "b"))


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


@pytest.mark.parametrize("who", ["server", "agent"])
def test_when_server_or_agent_is_killed_the_launch_says_so_and_the_next_one_works(who):
    launch(lambda rank, world_size: rank)
    process = server.current().process

    def kill(rank, world_size, pid):
        os.kill(pid or os.getppid(), 9)
        time.sleep(1000)

    if who == "agent":
        with pytest.raises(LaunchError, match="agent ended, and the ranks with it"):
            launch(kill, None, world_size=1)
    else:
        process.kill()
        process.wait()
    assert list(launch(lambda rank, world_size: rank, world_size=2)) == [0, 1]


def test_a_return_value_that_cannot_travel_is_named_with_its_rank(kernel):
    cell = "cl.launch(lambda rank, world_size: threading.Lock() if rank else 1)"
    text = error(kernel.run(cell))
    assert "rank 1 of 2 returned a lock, which cannot be sent back" in text


def test_an_exception_class_of_the_cell_is_named(kernel):
    cell = """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a + b)

def train(rank, world_size):
    raise Odd("too ", "odd")

cl.launch(train)"""
    assert "raised Odd: too odd" in error(kernel.run(cell))


def test_a_wrong_call_is_one_sentence(kernel):
    text = error(kernel.run("cl.launch(lambda rank: rank)"))
    assert text.startswith("UsageError: ")
    assert "Traceback" not in text
    assert len(text.splitlines()) == 1


def test_a_launch_inside_a_rank_is_refused(kernel):
    text = error(kernel.run("cl.launch(lambda rank, world_size: cl.launch(print))"))
    assert "ranks cannot start ranks" in text


def test_a_timeout_shows_where_each_rank_is(kernel):
    text = fault(kernel, "time.sleep(1000)", "cl.launch(train, timeout=1)")
    assert "train on 2 ranks: not done after 1 s" in text
    assert "rank 0 was in cell In[" in text and "dist.all_reduce(torch.ones(3))" in text
    assert "rank 1 was in cell In[" in text and "time.sleep(1000)" in text


def test_the_launch_after_a_failed_one_works(kernel):
    fault(kernel, "os._exit(7)")
    assert "[0, 1]" in shown(
        kernel.run("list(cl.launch(lambda rank, world_size: rank))")
    )


def _hangs(kernel, ready="ready"):
    """Start a launch that never ends; comes back once a rank has said so."""
    cell = f"""
def train(rank, world_size):
    print("{ready}")
    while True:
        time.sleep(1000)

cl.launch(train)"""
    message_id = kernel.send(cell)
    kernel.finish(message_id, until=lambda m: ready in str(m["content"].get("data")))
    return message_id


def test_an_interrupt_stops_all_ranks_and_shows_where_they_were(kernel):
    message_id = _hangs(kernel)
    kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert "LaunchInterrupted: train on 2 ranks: interrupted" in text
    assert "rank 1 was in cell In[" in text and "time.sleep(1000)" in text


def test_an_interrupted_kernel_launches_again_at_once(kernel):
    message_id = _hangs(kernel)
    kernel.manager.interrupt_kernel()
    kernel.finish(message_id)
    assert "[0, 1]" in shown(
        kernel.run("list(cl.launch(lambda rank, world_size: rank))")
    )


def test_a_second_interrupt_does_not_disturb_the_first(kernel):
    message_id = _hangs(kernel)
    for _ in range(3):
        kernel.manager.interrupt_kernel()
    assert "interrupted" in error(kernel.finish(message_id))
    assert "[0, 1]" in shown(
        kernel.run("list(cl.launch(lambda rank, world_size: rank))")
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_kernel_takes_server_and_ranks_with_it(number):
    kernel = Kernel()
    try:
        kernel.run(PRELUDE)
        _hangs(kernel)
        below = [
            psutil.Process(pid.pid) for pid in psutil.Process(kernel.pid).children(True)
        ]
        assert len(below) >= 4  # the server, an agent, two ranks
        os.kill(kernel.pid, number)
        assert becomes(
            lambda: not any(_lives(process) for process in below), seconds=10
        )
    finally:
        kernel.close()


def _lives(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_importing_the_package_in_a_kernel_starts_the_server():
    kernel = Kernel()
    try:
        kernel.run("import course_lib")
        servers = [
            p
            for p in psutil.Process(kernel.pid).children()
            if "server.main" in str(p.cmdline())
        ]
        assert len(servers) == 1
    finally:
        kernel.close()


def test_live_output_arrives_while_the_ranks_run(kernel):
    message_id = _hangs(kernel, ready="half way")
    kernel.manager.interrupt_kernel()
    assert "[rank 0] half way" in shown(kernel.finish(message_id))


def test_output_is_in_rank_order_at_the_end(kernel):
    cell = """
def train(rank, world_size):
    time.sleep(0.1 * (1 - rank))
    print("hello from", rank)

results = cl.launch(train)"""
    text = shown(kernel.run(cell))
    assert text.index("[rank 0] hello from 0") < text.index("[rank 1] hello from 1")


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
    # on a busy machine the ranks may still import torch
    where = r"not done after 5 s\n\nrank 0 was in .*(time.sleep\(1000\)|its start-up)"
    with pytest.raises(LaunchTimeout, match=where):
        launch(lambda rank, world_size: time.sleep(1000), timeout=5)


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
    assert becomes(lambda: not any(_lives(child) for child in below), seconds=10)
