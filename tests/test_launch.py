"""A launch runs a function in fresh processes and gives back results and output."""

import functools
import importlib
import itertools
import linecache
import os
import random
import sys
import threading
import time

import numpy
import pytest
import torch
import torch.distributed as dist

from course_lib.errors import UsageError
from course_lib.exercises import folders
from course_lib.exercises.checking import exercises
from course_lib.launching import client, forkserver, spec
from course_lib.launching.launcher import launch
from tests import forked
from tests.leftovers import becomes

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_results_come_back_by_rank():
    results = launch(lambda rank, world_size: (rank, world_size), world_size=3)
    assert list(results) == [(0, 3), (1, 3), (2, 3)]


def test_two_ranks_are_the_default_without_gpus():
    gpus = torch.cuda.device_count()
    assert len(launch(lambda rank, world_size: rank)) == (gpus or 2)


def test_arguments_reach_every_rank():
    def add(rank, world_size, x, *, y):
        return rank + x + y

    assert list(launch(add, 10, y=100, world_size=2)) == [110, 111]


def test_one_rank_alone_can_communicate_with_itself():
    def alone(rank, world_size):
        dist.init_process_group("gloo")
        x = torch.ones(2)
        dist.all_reduce(x)
        return x

    assert launch(alone, world_size=1)[0].tolist() == [1, 1]


def test_closures_and_classes_of_the_caller_travel():
    factor = 3

    class Pair:
        def __init__(self, x):
            self.x = x * factor

    results = launch(lambda rank, world_size: Pair(rank), world_size=2)
    assert isinstance(results[1], Pair)
    assert results[1].x == 3


def test_a_seed_reads_no_source_of_pytorch():
    def read(rank, world_size):
        before = {*linecache.cache}
        torch.manual_seed(0)
        return {name for name in {*linecache.cache} - before if "torch" in name}

    client.close_server()  # one that is forked has imported all
    assert launch(read, world_size=1)[0] == set()


def test_the_environment_is_that_of_torchrun():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    names += "MASTER_ADDR", "MASTER_PORT"
    results = launch(
        lambda rank, world_size: [os.environ[n] for n in names], world_size=2
    )
    assert [values[:4] for values in results] == [[*"0022"], [*"1122"]]
    assert results[0][4:] == results[1][4:]


def test_every_launch_gets_fresh_processes():
    def count(rank, world_size):
        sys.visits = getattr(sys, "visits", 0) + 1
        return sys.visits, os.getpid()

    first, second = launch(count, world_size=2), launch(count, world_size=2)
    assert [visits for visits, _ in [*first, *second]] == [1, 1, 1, 1]
    assert len({pid for _, pid in [*first, *second]}) == 4


def test_random_numbers_differ_between_ranks():
    def draw(rank, world_size):
        return torch.rand(1).item(), numpy.random.rand(), random.random()

    results = launch(draw, world_size=2)
    assert all(mine != other for mine, other in zip(*results))


def threads(rank, world_size):
    import scipy.linalg  # noqa: F401  which brings another library of its own
    import threadpoolctl

    pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return pools | {torch.get_num_threads()}, os.environ["OMP_NUM_THREADS"]


def test_ranks_of_gloo_are_on_the_cpu_of_a_machine_with_gpus(monkeypatch):
    def ones(rank, world_size):
        return torch.ones(4).sum().item()

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    results = launch(ones, world_size=2, trace=True)
    assert results.title.startswith("2 ranks on the CPU, one thread each, ")
    assert results.trace.source.startswith("measured: 2 ranks on the CPU, ")


@pytest.mark.parametrize("plain", [False, True])
def test_a_rank_has_one_thread_and_so_has_what_it_starts(monkeypatch, plain):
    monkeypatch.delenv("OMP_NUM_THREADS")
    if plain:
        monkeypatch.setenv("COURSE_LIB_PLAIN", "1")
    results = launch(threads, world_size=2)
    assert list(results) == [({1}, "1")] * 2
    assert "one thread each" in repr(results)


@pytest.mark.parametrize("plain", [False, True])
def test_a_rank_has_as_many_threads_as_the_learner_set(monkeypatch, plain):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    if plain:
        monkeypatch.setenv("COURSE_LIB_PLAIN", "1")
    results = launch(threads, world_size=1)
    assert list(results) == [({2}, "2")]
    assert "2 threads each" in repr(results)


def test_the_folder_and_the_variables_of_the_notebook_are_taken_on(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_COLOR", "green")
    results = launch(lambda rank, world_size: (os.getcwd(), os.environ["COURSE_COLOR"]))
    assert results[0] == (str(tmp_path), "green")


def test_temporary_files_of_ranks_are_where_the_notebook_has_its_own(
    tmp_path, monkeypatch
):
    def folder(rank, world_size):
        import tempfile

        return tempfile.gettempdir()

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert list(launch(folder)) == [str(tmp_path)] * 2


def test_a_module_beside_the_notebook_can_be_imported(tmp_path, monkeypatch):
    (tmp_path / "mymodel.py").write_text("def double(x): return 2 * x")
    monkeypatch.syspath_prepend(tmp_path)

    def use(rank, world_size):
        import mymodel

        return mymodel.double(rank)

    assert list(launch(use, world_size=2)) == [0, 2]


@pytest.mark.parametrize("method", ["env", "tcp", "file"])
def test_ranks_meet_by_every_init_method(method, tmp_path):
    url = {
        "env": "env://",
        "tcp": "tcp://127.0.0.1:29500",
        "file": f"file://{tmp_path}/meet",
    }[method]

    def total(rank, world_size):
        dist.init_process_group(
            "gloo", init_method=url, rank=rank, world_size=world_size
        )
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x)
        return x.item()

    assert list(launch(total, world_size=2)) == [3.0, 3.0]


def test_no_rank_leaves_the_making_of_a_group_before_the_others():
    def join(rank, world_size):
        from torch.distributed import distributed_c10d as c10d

        made, done = c10d._update_default_pg, []

        def late(group):
            time.sleep(0.3)
            made(group)
            done.append(time.monotonic())

        if rank == 1:
            c10d._update_default_pg = late
        dist.init_process_group("gloo")
        return done or [time.monotonic()]

    [first], [second] = launch(join, world_size=2)
    assert first > second


def test_a_process_group_can_be_made_twenty_times():
    def again(rank, world_size):
        for _ in range(20):
            dist.init_process_group("gloo")
            x = torch.ones(1)
            dist.all_reduce(x)
            dist.destroy_process_group()
        return x.item()

    # three: two ranks may by luck be in step with each other all the way
    assert list(launch(again, world_size=3)) == [3.0] * 3


def test_launches_at_the_same_time_do_not_meet():
    def total(rank, world_size, x):
        dist.init_process_group(
            "gloo",
            init_method="tcp://127.0.0.1:29500",
            rank=rank,
            world_size=world_size,
        )
        y = torch.tensor([float(x)])
        dist.all_reduce(y)
        return y.item()

    found = {}
    threads = [
        threading.Thread(
            target=lambda x=x: found.update({x: list(launch(total, x, world_size=2))})
        )
        for x in (1, 10, 100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1: [2.0] * 2, 10: [20.0] * 2, 100: [200.0] * 2}


def test_ten_launches_in_a_row_leave_no_open_files():
    launch(lambda rank, world_size: rank)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        launch(lambda rank, world_size: rank, world_size=2)
    assert len(os.listdir("/proc/self/fd")) == before


def test_sixteen_ranks_reduce_on_two_cores():
    def total(rank, world_size):
        dist.init_process_group("gloo")
        x = torch.tensor([1.0])
        dist.all_reduce(x)
        return x.item()

    assert set(launch(total, world_size=16)) == {16.0}


def test_output_is_kept_by_rank(capfd):
    def speak(rank, world_size):
        print("out", rank)
        print("err", rank, file=sys.stderr)
        os.system(f"echo child {rank}")

    results = launch(speak, world_size=2)
    assert sorted(results.output[1].splitlines()) == ["child 1", "err 1", "out 1"]
    assert "[rank 1] child 1\n" in capfd.readouterr().out


def test_output_of_compiled_code_is_kept():
    def speak(rank, world_size):
        import ctypes

        ctypes.CDLL(None).printf(b"from C without a newline")

    assert launch(speak, world_size=1).output[0] == "from C without a newline"


def test_a_progress_bar_ends_as_one_line():
    def train(rank, world_size):
        for percent in range(0, 101, 10):
            print(f"\r{percent:3} %", end="", file=sys.stderr)
        print("\ndone")

    assert launch(train, world_size=1).output[0] == "100 %\ndone\n"


def test_output_at_exit_is_kept():
    def speak(rank, world_size):
        import atexit

        atexit.register(print, "goodbye")

    assert launch(speak, world_size=1).output[0] == "goodbye\n"


def test_a_long_output_is_complete():
    def speak(rank, world_size):
        for number in range(20_000):
            print(number)

    lines = launch(speak, world_size=2).output[1].split()
    assert lines == [str(number) for number in range(20_000)]


def test_large_tensors_come_back():
    results = launch(
        lambda rank, world_size: torch.full((3_000_000,), float(rank)), world_size=2
    )
    assert results[1].sum().item() == 3_000_000


def test_two_results_that_share_memory_still_share_it():
    def views(rank, world_size):
        x = torch.zeros(4)
        return x, x[:2]

    whole, part = launch(views, world_size=1)[0]
    part[0] = 7
    assert whole[0] == 7


def test_data_loader_workers_of_a_rank_end_with_it():
    def load(rank, world_size):
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        loader = torch.utils.data.DataLoader(
            data, 4, num_workers=2, persistent_workers=True
        )
        return [batch[0].sum().item() for batch in loader]

    assert list(launch(load, world_size=2)) == [[6.0, 22.0]] * 2


def test_daemons_of_a_rank_do_not_outlive_it(nothing_left):
    def leave_behind(rank, world_size):
        import subprocess

        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid

    pids = launch(leave_behind, world_size=2)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_the_notebook_is_left_as_it_was():
    before = (
        os.getcwd(),
        dict(os.environ),
        torch.initial_seed(),
        torch.get_num_threads(),
    )
    random_state = torch.get_rng_state()

    def change(rank, world_size):
        os.chdir("/")
        os.environ["MASTER_PORT"] = "1"
        torch.set_default_device("meta")

    launch(change, world_size=2)
    assert before == (
        os.getcwd(),
        dict(os.environ),
        torch.initial_seed(),
        torch.get_num_threads(),
    )
    assert torch.equal(random_state, torch.get_rng_state())


def test_the_notebook_is_never_forked(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked the caller"))
    assert list(launch(lambda rank, world_size: rank, world_size=2)) == [0, 1]


@pytest.fixture
def started():
    """Servers as they are outside tests: programs of their own."""
    client.close_server()
    with forked.starting():
        yield
    client.close_server()


def test_a_variable_read_at_import_gets_a_new_server(started, monkeypatch):
    launch(lambda rank, world_size: rank)
    first = client.current_server()
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "1")
    launch(lambda rank, world_size: rank)
    assert client.current_server() is not first
    assert becomes(lambda: first.process.poll() is not None)


def test_an_import_of_scikit_learn_needs_no_new_server(monkeypatch):
    for name in ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"):
        monkeypatch.delenv(name, raising=False)
    launch(lambda rank, world_size: rank)
    first, before = client.current_server(), dict(os.environ)
    importlib.reload(importlib.import_module("sklearn"))
    assert os.environ != before  # it sets variables
    launch(lambda rank, world_size: rank)
    assert client.current_server() is first


def test_the_server_has_one_thread(started):
    assert list(launch(lambda rank, world_size: rank, world_size=2)) == [0, 1]
    assert len(os.listdir(f"/proc/{client.current_server().process.pid}/task")) == 1


def test_what_the_server_is_to_preload_can_be_imported():
    names = [*forkserver.PRELOAD, *folders.observing()]
    for name in names:  # the server itself passes over what cannot be imported
        importlib.import_module(name)
    assert {one.observe.__module__ for one in exercises().values()} <= set(names)


@pytest.mark.parametrize(
    "size, message",
    [
        (0, "world_size=0: give at least 1 rank"),
        (-1, "world_size=-1: give at least 1 rank"),
        ("2", "world_size='2' is a str: give a whole number"),
        (2.0, "world_size=2.0 is a float"),
        (True, "world_size=True is a bool"),
        (10**6, "this machine can bear"),
    ],
)
def test_a_world_size_that_cannot_be_is_refused(size, message):
    with pytest.raises(UsageError, match=message):
        launch(lambda rank, world_size: rank, world_size=size)


def test_the_number_of_ranks_it_can_bear_is_told(monkeypatch):
    monkeypatch.setattr(spec, "_free_memory", lambda: 5 * spec._RANK_MEMORY)
    with pytest.raises(UsageError, match="this machine can bear 5 ranks"):
        launch(lambda rank, world_size: rank, world_size=6)


def test_a_numpy_integer_is_a_world_size():
    assert len(launch(lambda rank, world_size: rank, world_size=numpy.int64(3))) == 3


def test_a_function_without_world_size_is_refused():
    with pytest.raises(
        UsageError, match="first two parameters must be rank and world_size"
    ):
        launch(lambda rank: rank)


def test_a_forgotten_argument_is_named():
    def train(rank, world_size, lr):
        pass

    with pytest.raises(UsageError, match="missing a required argument: 'lr'"):
        launch(train)


def test_the_result_of_a_call_is_not_a_function():
    with pytest.raises(
        UsageError, match=r"Write launch\(train\), not launch\(train\(\)\)"
    ):
        launch(None)


def test_reserved_names_are_refused_as_parameters():
    def train(rank, world_size, timeout):
        pass

    with pytest.raises(UsageError, match="a parameter `timeout`, which launch"):
        launch(train, 3)


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_must_be_positive(timeout):
    with pytest.raises(UsageError, match="seconds above 0"):
        launch(lambda rank, world_size: rank, timeout=timeout)


def test_an_argument_that_cannot_travel_is_named():
    def train(rank, world_size, lock):
        pass

    with pytest.raises(UsageError, match="the argument `lock` is a _thread.lock"):
        launch(train, threading.Lock())


def test_a_variable_that_cannot_travel_is_named():
    lock = threading.Lock()

    def train(rank, world_size):
        with lock:
            pass

    with pytest.raises(UsageError, match="uses the variable `lock`, a _thread.lock"):
        launch(train)


def test_a_partial_function_is_launched():
    add = functools.partial(lambda rank, world_size, x: rank + x, x=10)
    assert list(launch(add, world_size=2)) == [10, 11]


def test_a_method_is_launched():
    class Trainer:
        lr = 3

        def train(self, rank, world_size):
            return rank * self.lr

    assert list(launch(Trainer().train, world_size=2)) == [0, 3]


def test_a_partial_function_that_cannot_travel_is_refused():
    add = functools.partial(lambda rank, world_size, x: None, x=threading.Lock())
    with pytest.raises(UsageError, match="cannot be pickled"):
        launch(add)


def test_a_trace_holds_the_events_of_every_rank():
    def total(rank, world_size):
        dist.init_process_group("gloo")
        x = torch.ones(1000)
        dist.all_reduce(x)

    trace = launch(total, world_size=2, trace=True).trace
    assert trace.ranks == (0, 1)
    calls = [e for e in trace if (e.kind, e.name) == ("communicate", "all_reduce")]
    assert [e.bytes for e in calls] == [4000, 4000]
    assert trace.source.startswith("measured: 2 ranks on the CPU")


def test_a_trace_of_two_training_steps_holds_these():
    def train(rank, world_size):
        dist.init_process_group("gloo")
        model = torch.nn.Linear(2, 2)
        for _ in range(4):
            dist.barrier()
            model(torch.ones(2)).sum().backward()

    trace = launch(train, world_size=2, trace=range(1, 3)).trace
    events = trace.select(rank=1, kind="compute")
    # a rank that loses its core for a while has two pieces of one phase
    names = [name for name, _ in itertools.groupby(event.name for event in events)]
    # a rank may be in its first step before the other begins
    assert 1 <= names.count("backward") <= 2
    assert trace.source.endswith(", from training step 1 on")


@pytest.mark.parametrize("steps", [range(3, 3), range(0, 9, 2), range(-1, 2)])
def test_a_trace_of_no_training_steps_is_refused(steps):
    with pytest.raises(UsageError, match="trace=range.*range.3, 5. are 3 and 4"):
        launch(train_nothing, trace=steps)


def train_nothing(rank, world_size):
    pass


def test_a_rank_waits_for_a_message_until_it_is_sent():
    def late(rank, world_size):
        dist.init_process_group("gloo")
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            store.get("computed")  # waits for it
            time.sleep(0.3)
            return dist.send(torch.ones(2), 1)
        work, x = dist.irecv(torch.ones(2), 0), torch.ones(200, 200)
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            x = x @ x
        store.set("computed", "yes")
        return work.wait()

    trace = launch(late, world_size=2, trace=True).trace
    (wait,) = trace.select(1, "wait", "recv")
    assert wait.duration > 0.25
    (send,), (recv,) = (
        trace.select(kind="communicate", name=n) for n in ("send", "recv")
    )
    assert wait.stop == recv.start == send.start and recv.stop == send.stop
    assert trace.overlap(1) < 0.05 < trace.time(1, "compute")


def test_without_trace_there_is_none():
    assert launch(lambda rank, world_size: rank).trace is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
class TestOnGpus:
    def test_a_rank_can_use_its_gpu_and_the_caller_does_not_start_cuda(self):
        def use(rank, world_size):
            torch.cuda.set_device(rank)
            return torch.ones(2, device="cuda") + rank

        results = launch(use)
        assert len(results) == torch.cuda.device_count()
        assert results[0].device.type == "cpu"
        assert not torch.cuda.is_initialized()
        where = " on one GPU" if len(results) == 1 else ", one GPU each"
        assert where in results.title

    def test_nccl_reduces_where_every_rank_has_a_gpu(self):
        def total(rank, world_size):
            torch.cuda.set_device(rank)
            dist.init_process_group("nccl")
            x = torch.ones(1, device="cuda")
            dist.all_reduce(x)
            dist.destroy_process_group()
            return x.item()

        assert set(launch(total)) == {float(torch.cuda.device_count())}

    def test_two_ranks_share_one_gpu_over_gloo(self):
        def total(rank, world_size):
            dist.init_process_group("gloo")
            x = torch.ones(1, device="cuda:0")
            dist.all_reduce(x)
            return x.item()

        assert list(launch(total, world_size=2)) == [2.0, 2.0]
