"""What a launch says of programs that people bring: the cause, by names and sizes."""

import importlib
import sys
import time
import warnings
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

import course_lib as cl


def failure(function, *args, **how):
    """The message of a launch that fails."""
    with pytest.raises(cl.LaunchError) as caught:
        cl.launch(function, *args, **{"world_size": 2} | how)
    return str(caught.value)


class Extra(nn.Module):
    """A model with a frozen first layer, and a last one that the loss does not use."""

    def __init__(self):
        super().__init__()
        self.first, self.used, self.aux = (nn.Linear(4, 4) for _ in range(3))
        self.first.requires_grad_(False)

    def forward(self, x):
        return self.used(self.first(x)), self.aux(x)


def trains(rank, world_size, make, steps, **options):
    dist.init_process_group("gloo")
    net = DDP(make(rank), **options)
    for _ in range(steps):
        out = net(torch.ones(2, 4, requires_grad=True))
        (out[0] if isinstance(out, tuple) else out).sum().backward()


def test_parameters_without_a_gradient_have_names():
    text = failure(trains, lambda rank: Extra(), 2)
    assert "Expected to have finished reduction in the prior iteration" in text
    assert "Without a gradient: aux.weight, aux.bias. DDP waits" in text
    assert "DDP(…, find_unused_parameters=True)" in text
    cl.launch(trains, lambda rank: Extra(), 2, find_unused_parameters=True)


class Block(nn.Module):
    """Recomputes its first layer in backward."""

    def __init__(self, reentrant):
        super().__init__()
        self.block, self.head, self.reentrant = (
            nn.Linear(4, 4),
            nn.Linear(4, 2),
            reentrant,
        )

    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))


def test_a_parameter_that_is_ready_twice_has_its_name_and_what_helps_does():
    text = failure(trains, lambda rank: Block(True), 1, find_unused_parameters=True)
    assert "Expected to mark a variable ready only once" in text
    assert "Ready twice: block.bias. A layer that is recomputed wants" in text
    assert "checkpoint(…, use_reentrant=False)" in text
    cl.launch(trains, lambda rank: Block(False), 1, find_unused_parameters=True)


def test_models_that_differ_have_the_name_of_the_first_difference():
    def of_rank(rank):
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2 + rank))

    text = failure(trains, of_rank, 1)
    assert (
        "sizes [3, 4] appears not to match sizes of the same param in process 0" in text
    )
    assert "That is 1.weight. All ranks must wrap the same model" in text


def test_models_of_other_lengths_are_not_the_same():
    def of_rank(rank):
        return nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + rank)))

    text = failure(trains, of_rank, 1)
    assert "DDP expects same model across all ranks" in text
    assert (
        "\nAll ranks must wrap the same model, whose sizes depend on no rank." in text
    )


def test_an_attribute_of_the_wrapped_model_is_found():
    def reads(rank, world_size):
        dist.init_process_group("gloo")
        return DDP(nn.Linear(4, 2)).in_features

    assert "DDP wraps the model, which is its .module: net.module.in_features" in (
        failure(reads)
    )


def collects(rank, world_size, how, size, kind):
    dist.init_process_group("gloo")
    mine = torch.ones(size, dtype=kind)
    if how == "all_gather":
        dist.all_gather([torch.empty_like(mine) for _ in range(world_size)], mine)
    elif how == "gather":
        parts = [torch.empty_like(mine) for _ in range(world_size)]
        dist.gather(mine, parts if rank == 0 else None)
    elif how == "scatter":
        dist.scatter(mine, [torch.ones(3)] * world_size if rank == 0 else None)
    elif how == "broadcast":
        dist.broadcast(mine, 0)
    else:
        dist.all_reduce(mine)
    dist.barrier()


def unlike(how, sizes=(3, 4), kinds=(torch.float32, torch.float32)):
    """What is said of ranks that pass these: an error's message, or a warning's."""

    def each(rank, world_size):
        collects(rank, world_size, how, sizes[rank], kinds[rank])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            cl.launch(each, world_size=2)
        except cl.LaunchError as error:
            return str(error)
    [warning] = [w for w in caught if "one collective" in str(w.message)]
    assert warning.filename == __file__
    return str(warning.message)


@pytest.mark.parametrize(
    "how", ["all_gather", "gather", "all_reduce", "broadcast", "scatter"]
)
def test_sizes_that_differ_are_named_for_each_rank(how):
    text = unlike(how)
    assert f"rank 0 calls {how} of f32[3], rank 1 calls {how} of f32[4]" in text
    assert "as many numbers of one type." in text
    assert "Every rank must make the same collective calls." not in text  # they do


def test_a_long_all_reduce_whose_sizes_differ_is_named_too():
    text = unlike("all_reduce", (3_000_000, 3_001_000))
    assert "all_reduce of f32[3000000], rank 1 calls all_reduce of f32[3001000]" in text


@pytest.mark.parametrize("other", [torch.float64, torch.int32])
def test_types_that_differ_are_named_for_each_rank(other):
    text = unlike("all_reduce", (4, 4), (torch.float32, other))
    short = {torch.float64: "f64", torch.int32: "i32"}[other]
    assert f"of f32[4], rank 1 calls all_reduce of {short}[4]" in text


def test_other_shapes_of_as_many_numbers_are_no_fault():
    def each(rank, world_size):
        dist.init_process_group("gloo")
        dist.all_reduce(torch.ones((2, 3) if rank else 6))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cl.launch(each, world_size=2)


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="a rank with GPUs says less")
def test_a_rank_that_gloo_ends_has_the_line_of_its_call():
    text = unlike("all_gather")
    assert "rank 0 of 2 was killed by SIGABRT (a crash in compiled code) before" in text
    assert "line " in text and "in collects\n" in text
    assert "dist.all_gather([torch.empty_like(mine)" in text


def test_a_crash_in_compiled_code_has_the_line_of_the_call():
    def reads_nothing(rank, world_size):
        import ctypes

        ctypes.string_at(rank)

    text = failure(reads_nothing)
    assert "killed by SIGSEGV (a crash in compiled code) before" in text
    assert ctypes_line(text)


def ctypes_line(text):
    return [line for line in text.splitlines() if "-->" in line and "string_at" in line]


def grouped(rank, world_size, lists):
    dist.init_process_group("gloo")
    groups = [dist.new_group(members) for members in lists[rank]]
    group = next(g for g, m in zip(groups, lists[rank]) if rank in m)
    dist.all_reduce(torch.ones(1), group=group)


OWN = [[[0, 3]], [[1, 2]], [[1, 2]], [[0, 3]]]
DIFFERS = "Call 1 of new_group differs: ranks 0, 3 name [0, 3], ranks 1, 2 name [1, 2]."


def test_groups_that_only_their_members_make_are_named_however_it_ends():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:  # a race: it ends well, in a lost connection, or not at all
            cl.launch(grouped, OWN, world_size=4)
            text = str(caught[-1].message)
        except cl.LaunchError as error:
            text = str(error)
    assert DIFFERS in text
    assert "Every rank must call new_group for every group, in the same order" in text
    assert "did not" not in text  # all have called it


def test_groups_that_all_ranks_make_alike_are_right():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cl.launch(grouped, [[[0, 3], [1, 2]]] * 4, world_size=4)


def test_groups_that_say_so_are_made_by_their_members_alone():
    def local(rank, world_size):
        dist.init_process_group("gloo")
        members = [0, 3] if rank in (0, 3) else [1, 2]
        group = dist.new_group(members, use_local_synchronization=True)
        dist.all_reduce(torch.ones(1), group=group)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cl.launch(local, world_size=4)


def round_robin(rank, world_size):
    dist.init_process_group("gloo")
    x, other = torch.ones(4), torch.ones(4)
    if rank == 0:
        dist.send(other, 2)
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
        dist.send(x, 2)
    else:
        dist.recv(x, 1)
        dist.recv(other, 0)


def test_messages_in_a_circle_are_told_as_one():
    text = failure(round_robin, world_size=3)
    assert "rank 0 waits until its message is taken by rank 2, rank 2 waits for" in text
    assert "do not pair up" not in text


def sends_and_leaves(rank, world_size, left):
    dist.init_process_group("gloo")
    if rank == 0:
        dist.isend(torch.ones(2_000_000), 1)
        left.touch()
    else:
        while not left.exists():  # a receiver that waits may get it all in time
            time.sleep(0.01)
        dist.recv(torch.empty(2_000_000), 0)


def test_a_message_whose_handle_is_dropped_is_told(tmp_path):
    text = failure(sends_and_leaves, tmp_path / "left")
    assert "rank 0 sent to rank 1 by isend, and did not wait for it" in text
    assert "collective" not in text  # nobody makes any


def goes_on(rank, world_size):
    dist.init_process_group("gloo")
    while True:
        dist.all_reduce(torch.ones(10))


def test_of_ranks_that_go_on_no_call_is_said_to_differ():
    text = failure(goes_on, timeout=2)
    assert "not done after 2 s" in text
    assert "the same order" not in text
    assert "do all pass" not in text


ENGINE = """
import torch.distributed as dist
class Engine:
    def fit(self, batches):
        self.epoch(batches)
    def epoch(self, batches):
        self.step(batches)
    def step(self, batches):
        self.check(batches)
    def check(self, batches):
        if dist.get_rank() == 1:
            raise ValueError("bad loss")
        dist.barrier()
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    (tmp_path / "own_engine.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("own_engine")
    del sys.modules["own_engine"]


def test_the_line_that_calls_an_engine_stands_first_however_deep_it_is(engine):
    def deep(rank, world_size):
        dist.init_process_group("gloo")
        engine.Engine().fit([torch.ones(1)])

    text = failure(deep)
    arrows = [line.split("-->")[1] for line in text.splitlines() if "-->" in line]
    assert "engine.Engine().fit([torch.ones(1)])" in arrows[0]
    assert 'raise ValueError("bad loss")' in arrows[-1]
    assert len(arrows) == 3
    [other] = [line for line in text.splitlines() if line.startswith("rank 0 ")]
    assert "in deep, and there" in other and "in check: dist.barrier()" in other


def puts(queue):
    queue.put(torch.ones(3))


def takes_late(rank, world_size):
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=puts, args=(queue,))
    process.start()
    process.join()  # it ends, and with it what hands over the tensor
    return queue.get()


def test_a_tensor_whose_process_has_ended_is_told():
    text = failure(takes_late)
    assert "A tensor in a queue is fetched from the process that put it there" in text


def joins_first(rank, world_size):
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=lambda: queue.put(list(range(1_000_000))))
    process.start()
    process.join()


def takes_from_nobody(rank, world_size):
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=int)
    process.start()
    return queue.get()


@pytest.mark.parametrize(
    "function, said",
    [
        (joins_first, "what it put into its queue is taken: get() comes before join()"),
        (takes_from_nobody, "wait in get() of a queue, and what was started to put"),
    ],
)
def test_a_queue_that_nobody_empties_or_fills_is_told_when_it_is_late(function, said):
    assert said in failure(function, timeout=4)


def test_a_rank_that_asks_for_a_key_is_told_that_it_has_no_keyboard():
    def asks(rank, world_size):
        input("Enter your choice: ")

    def stops(rank, world_size):
        breakpoint()

    for function in (asks, stops):
        assert "A rank has no keyboard: ask before the launch" in failure(function)


def test_what_the_course_wraps_is_no_library_of_the_reader():
    text = failure(unlike_call)
    assert "rendezvous.py" not in text and "in wait, " not in text


def unlike_call(rank, world_size):
    dist.init_process_group("gloo")
    if rank:
        dist.all_reduce(torch.ones(1))


def test_a_rank_reads_the_arguments_of_the_script():
    def reads(rank, world_size):
        return sys.argv

    with mock.patch.object(sys, "argv", ["train.py", "--lr", "0.5"]):
        assert list(cl.launch(reads, world_size=2)) == [["train.py", "--lr", "0.5"]] * 2
