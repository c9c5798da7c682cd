"""Row 2: a rank leaves, crashes or is killed before its function returned."""

from pathlib import Path

import psutil
import pytest

from tests.fault_table import case
from tests.faults.cells import failed, fault, launches, placed, value
from tests.kernels import error
from tests.leftovers import becomes, lives

FILL = "x = [torch.ones(1 << 22) for _ in range(1 << 20)]"
TOO_LARGE = "torch.empty(1 << 55)"


@pytest.mark.parametrize(
    "body, message",
    [
        case(2, "sys.exit(0)", "sys.exit(0)", "left by sys.exit(0) before train"),
        case(2, "sys.exit(3)", "sys.exit(3)", "left by sys.exit(3) before train"),
        case(2, "os._exit(0)", "os._exit(0)", "ended with exit code 0 before train"),
        case(2, "os._exit(7)", "os._exit(7)", "ended with exit code 7 before train"),
        case(2, "SIGSEGV", "ctypes.string_at(0)", "was killed by SIGSEGV"),
        case(2, "SIGABRT", "os.abort()", "was killed by SIGABRT"),
        case(2, "SIGTERM", "os.kill(os.getpid(), 15)", "was killed by SIGTERM"),
        case(2, "SIGKILL", "os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ],
)
def test_a_rank_that_leaves_is_named_with_the_way_it_went(kernel, body, message):
    text = fault(kernel, body)
    assert f"rank 1 of 2 {message}" in text
    assert placed(text, {0}, "line 6, in train: dist.all_reduce(torch.ones(3))"), text


@pytest.mark.fault(2, "return while the others wait")
def test_a_rank_that_returns_while_others_wait_is_named(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    dist.barrier()  # else rank 0 may lose it while it still makes its connections
    now()
    if rank == 0:
        dist.all_reduce(torch.ones(3))

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 0 of 2 lost its connection in its collective call 2: rank 1" in text
    assert "had returned from train already, after 1." in text
    assert "Every rank must make the same collective calls." in text


@pytest.mark.fault(2, "two ranks all-reduce different shapes")
def test_different_shapes_are_named_with_the_line_of_a_rank_that_gloo_ends(kernel):
    text = fault(kernel, "dist.all_reduce(torch.ones(1000))")
    assert "rank 0 of 2 was killed by SIGABRT (a crash in compiled code)" in text
    assert "-->   6      dist.all_reduce(torch.ones(3))" in text
    assert (
        "rank 0 calls all_reduce of f32[3], rank 1 calls all_reduce of f32[1000]"
        in text
    )


@pytest.mark.fault(2, "a tensor larger than the memory")
def test_a_tensor_that_does_not_fit_is_an_error_with_its_line(kernel):
    text = fault(kernel, TOO_LARGE)
    assert "rank 1 of 2 raised RuntimeError" in text
    assert "can't allocate memory" in text
    assert f"-->   5          {TOO_LARGE}" in text


@pytest.mark.fault(2, "a limit on memory reached")
def test_a_rank_at_its_limit_of_memory_is_named(kernel):
    # half a GB more than it has
    room = "room = psutil.Process().memory_info().vms + (1 << 29)"
    limit = "resource.setrlimit(resource.RLIMIT_AS, (room, room))"
    text = fault(kernel, f"import psutil, resource; {room}; {limit}; {FILL}")
    assert "rank 1 of 2 raised RuntimeError" in text
    assert "can't allocate memory" in text
    assert launches(kernel)


@pytest.fixture
def small_memory():
    """A control group of 600 MB, in which the system's out-of-memory killer works."""
    group = Path("/sys/fs/cgroup/memory/course_lib_test")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(600 << 20))
    except OSError:
        pytest.skip("needs a writable memory cgroup (version 1)")
    yield group
    group.rmdir()


@pytest.mark.fault(2, "the out-of-memory killer")
def test_the_out_of_memory_killer_is_named(kernel, small_memory):
    join = f"open('{small_memory}/cgroup.procs', 'w').write(str(os.getpid()))"
    text = fault(kernel, f"{join}; {FILL}")
    assert "rank 1 of 2 was killed by SIGKILL" in text
    assert "the system's out-of-memory killer" in text


RESCUED = """def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        now()
        os.kill(os.getpid(), 9)
    try:
        dist.all_reduce(torch.ones(3))
    except RuntimeError as error:
        raise RuntimeError("training failed") from error

cl.launch(train, world_size=4)"""


@pytest.mark.fault(2, "SIGKILL, and the others raise errors of their own")
def test_the_rank_that_was_killed_is_named_though_the_others_raise_too(kernel):
    for _ in range(5):
        assert "rank 1 of 4 was killed by SIGKILL" in failed(kernel, RESCUED)


@pytest.mark.fault(2, "an exit after the function returned")
def test_a_crash_after_the_function_returned_is_named(kernel):
    cell = """import atexit

def leave():
    now()
    os._exit(3)

def train(rank, world_size):
    if rank == 1:
        atexit.register(leave)
    else:
        time.sleep(1000)

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 ended with exit code 3 after train returned" in text


@pytest.mark.parametrize("leave", ["sys.exit(0)", "os._exit(0)"])
def test_leaving_early_without_an_error_is_noticed_at_once(kernel, leave):
    cell = f"""def train(rank, world_size):
    if rank == 1:
        now()
        {leave}
    time.sleep(1000)

cl.launch(train)"""
    assert "before train returned" in failed(kernel, cell)


@pytest.mark.fault(2, "SIGKILL of the launch's agent")
def test_a_killed_agent_takes_the_ranks_and_what_they_started_with_it(kernel):
    cell = """import subprocess

def train(rank, world_size):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    now()
    os.kill(os.getppid(), 9)
    time.sleep(1000)

cl.launch(train, world_size=1)"""
    assert "the launch's agent ended, and the ranks with it" in failed(kernel, cell)
    assert launches(kernel)


@pytest.mark.fault(2, "SIGKILL of the process server")
def test_a_killed_server_is_replaced(kernel):
    kernel.run("from course_lib.launching import client")
    process = psutil.Process(int(value(kernel, "client.current_server().process.pid")))
    process.kill()
    assert becomes(lambda: not lives(process))
    assert launches(kernel)


@pytest.mark.fault(2, "SIGKILL of server and agent during a launch")
def test_a_server_killed_during_a_launch_is_an_error(kernel):
    cell = """def train(rank, world_size):
    agent = os.getppid()
    with open(f"/proc/{agent}/stat") as file:
        server = int(file.read().rpartition(")")[2].split()[1])
    now()
    os.kill(server, 9)
    os.kill(agent, 9)
    time.sleep(1000)

cl.launch(train, world_size=1)"""
    text = failed(kernel, cell)
    assert "ended, and the ranks with it. Launch again" in text
    # a process that is killed ends when its memory is given back
    kernel.run(
        "from course_lib.launching import client; client._current.process.wait()"
    )
    assert launches(kernel)


def test_a_server_that_was_closed_is_replaced(kernel):
    kernel.run("from course_lib.launching import client")
    twice = "client.close_server(); client.close_server()"
    assert error(kernel.run(twice)) is None
    assert launches(kernel)
