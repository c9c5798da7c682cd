import itertools
import os
import subprocess
import sys
import time
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.launching.launcher import launch
from course_lib.tracing import profiler as marks
from course_lib.tracing import rank_recording
from course_lib.tracing.events import happens_before
from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.merge import merge_ranks
from course_lib.tracing.profiler import Op, Span

MS = 1_000_000
LAYER = 4 * (512 * 512 + 512)


def op(name, start, stop, **more):
    return Op(name, int(start * MS), int(stop * MS), **more)


def span(name, start, stop, payload=0):
    return Span(name, int(start * MS), int(stop * MS), payload)


def call(start, number, *, name="all_reduce", backend="gloo", payload=8):
    at = {"start": int(start * MS), "bytes": payload, "backend": backend}
    return Call("0", number, name, "", True, **at)


def run(start, stop, *, name="gloo:all_reduce", thread=2):
    return op(name, start, stop, thread=thread, note=True)


def pieces(ops, regions=()):
    found = marks.segments(ops, regions)
    return [(m.name, round(m.start * 1e3, 3), round(m.stop * 1e3, 3)) for m in found]


def meets(a, b):
    return not happens_before(a, b) and not happens_before(b, a)


def identities(marks):
    return [(mark.name, mark.group, mark.sequence, mark.bytes) for mark in marks]


# --- plain data


def test_an_operator_inside_another_counts_once():
    assert pieces([op("aten::mm", 1, 2), op("aten::matmul", 0, 3)]) == [
        ("matmul", 0, 3)
    ]


def test_operators_of_a_region_become_one_piece_with_its_name():
    ops = [op("aten::mm", 1, 2), op("aten::relu", 2.05, 3), op("aten::sum", 3.05, 4)]
    found = pieces(ops, [span("forward", 0.9, 3.01)])
    assert found == [("forward", 1, 3), ("sum", 3.05, 4)]


def test_the_outer_region_gives_the_name():
    regions = [span("backward", 0, 9), span("forward", 1, 2)]
    assert pieces([op("aten::mm", 1.2, 1.8)], regions) == [("backward", 1.2, 1.8)]


def test_two_visits_of_a_region_stay_apart():
    ops = [op("aten::mm", 0, 1), op("aten::mm", 1.05, 2)]
    regions = [span("forward", 0, 1.01), span("forward", 1.02, 2)]
    assert pieces(ops, regions) == [("forward", 0, 1), ("forward", 1.05, 2)]


def test_a_pause_in_which_a_collective_runs_is_no_compute():
    ops = [op("aten::mm", 0, 1), op("aten::mm", 1.5, 2)]
    regions = [span("backward", 0, 2)]
    assert pieces(ops, regions) == [("backward", 0, 2)]
    waited = pieces([*ops, run(0.9, 1.5)], regions)
    assert waited == [("backward", 0, 1), ("backward", 1.5, 2)]


def test_a_long_pause_is_no_compute():
    ops = [op("aten::mm", 0, 1), op("aten::mm", 5, 6)]
    assert len(pieces(ops, [span("forward", 0, 6)])) == 2


def test_a_tiny_operator_joins_its_neighbour():
    ops = [op("aten::t", 0, 0.001), op("aten::mm", 0.01, 1), op("aten::add", 1.01, 2)]
    assert pieces(ops) == [("mm", 0, 1), ("add", 1.01, 2)]


def test_time_inside_a_blocking_collective_is_cut_out_of_an_operator():
    node = op("autograd::engine::evaluate_function: X", 0, 9)
    blocked = op("_c10d_functional::wait_tensor", 3, 7)
    assert pieces([node, blocked]) == [("backward", 0, 3), ("backward", 7, 9)]


def test_operators_of_the_threads_of_gloo_are_no_compute():
    copy = op("aten::copy_", 1, 2, thread=2)
    assert pieces([run(0, 3), copy, op("aten::mm", 0, 1)]) == [("mm", 0, 1)]


def test_operators_between_a_send_and_its_wait_are_compute():
    send = run(0, 5, name="gloo:send", thread=0)
    assert pieces([send, op("aten::mm", 1, 2)]) == [("mm", 1, 2)]


def test_kernels_are_the_compute_and_take_the_region_of_their_launch():
    launch = op("aten::mm", 1, 1.1)
    kernel = op("sgemm", 5, 9, thread=7, launch=int(1.05 * MS))
    assert pieces([launch, kernel]) == [("mm", 5, 9)]
    assert pieces([launch, kernel], [span("forward", 0, 2)]) == [("forward", 5, 9)]


def test_a_kernel_of_nccl_is_the_collective_that_launched_it():
    host = op("c10d::allreduce_", 1, 2)
    kernel = op("ncclDevKernel_AllReduce_Sum_f32", 5, 9, launch=int(1.5 * MS))
    made = call(1.2, 4, backend="nccl")
    found = marks.communication([host, kernel], [made], [])
    assert identities(found) == [("all_reduce", "nccl:0.0", 4, 8)]
    assert (found[0].start, found[0].stop) == (0.005, 0.009)
    assert pieces([host, kernel]) == []


def test_runs_of_gloo_meet_their_calls_in_order():
    calls = [call(0, 1, payload=4), call(1, 2, payload=16)]
    found = marks.communication([run(2, 4), run(3, 5)], calls, [])
    assert [(mark.sequence, mark.bytes) for mark in found] == [(1, 4), (2, 16)]


def test_a_collective_has_ended_when_the_backward_that_awaits_it_has():
    found = marks.communication(
        [run(2, 9), run(11, 12)], [], [], awaited=[span("", 1, 5)]
    )
    assert [(mark.start * 1e3, mark.stop * 1e3) for mark in found] == [(2, 5), (11, 12)]


def test_a_kernel_of_nccl_goes_on_when_backward_has_returned():
    kernel = op("ncclDevKernel_AllReduce_Sum_f32", 2, 9, launch=int(1.5 * MS))
    host = op("c10d::allreduce_", 1, 2)
    [found] = marks.communication([host, kernel], [], [], awaited=[span("", 0, 5)])
    assert (found.start * 1e3, found.stop * 1e3) == (2, 9)


def test_a_collective_has_the_name_that_was_called_and_not_how_gloo_does_it():
    host = op("c10d::reduce_scatter_", 0, 1)
    calls = [call(0.2, 3), call(0.4, 4)]
    found = marks.communication([host, run(0.5, 2), run(0.6, 3)], calls, [])
    assert identities(found) == [("reduce_scatter", "gloo:0.0", 3, 16)]
    assert found[0].stop == 0.003


@pytest.mark.parametrize(
    "name, word",
    [
        ("c10d::_allgather_base_", "all_gather"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("c10d::reduce_", "reduce"),
        ("c10d::recv_any_source_", "recv"),
        ("ncclDevKernel_ReduceScatter_Sum_f32", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgs…)", "reduce"),
    ],
)
def test_every_library_name_becomes_the_word_of_pytorch(name, word):
    assert marks.collective_name(name) == word


def test_a_message_takes_its_bytes_from_the_send_that_made_it():
    messages = [span("0 to 1", n, n + 1, 20 + n) for n in (0, 2)] + [span("", 4, 5, 9)]
    starts = {0.5: "gloo:send", 2.5: "gloo:send", 4.5: "gloo:recv"}
    runs = [run(start, start + 1, name=name) for start, name in starts.items()]
    sends = [("send", "0 to 1", number, size) for number, size in ((1, 20), (2, 22))]
    found = marks.communication(runs, [], messages)
    assert identities(found) == [*sends, ("recv", None, 0, 9)]


def test_calls_without_a_flight_recorder_are_counted_by_name():
    found = marks.communication([run(0, 1), run(2, 3)], [], [])
    names = [("all_reduce", "all_reduce", number, 0) for number in (1, 2)]
    assert identities(found) == names


# --- recording in this process


def test_matmul_outside_of_regions_has_its_operators_name():
    with rank_recording.record() as recording:
        torch.ones(64, 64) @ torch.ones(64, 64)
    assert "matmul" in [mark.name for mark in recording.events]


def test_forward_backward_and_optimizer_are_regions():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rank_recording.record() as recording:
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    regions = ("forward", "backward", "optimizer")
    names = [mark.name for mark in recording.events if mark.name in regions]
    assert list(dict.fromkeys(names)) == list(regions)


def test_a_step_is_a_region_in_a_dispatch_mode_too():
    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            return operator(*args, **(kwargs or {}))

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rank_recording.record() as recording, Watch():
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    assert "optimizer" in [mark.name for mark in recording.events]


PENDING = [(1, "gloo"), (1, "nccl")]


def test_a_recording_ends_when_gloo_has_noted_the_ends_of_its_calls(monkeypatch):
    # torch 2.11 forgets a call whose end comes later; nccl's ends may come much later
    pending = [call(0, n, backend=b)._replace(done=False) for n, b in PENDING]
    answers = [pending, pending, [call(0, 1), pending[1]]]
    monkeypatch.setattr(
        rank_recording.flight_recorder, "read_calls", lambda _: answers.pop(0)
    )
    rank_recording._settle()
    assert not answers


def test_a_call_that_never_ends_does_not_hold_up_an_error(monkeypatch):
    def asked():
        raise AssertionError("the recording waits for it")

    monkeypatch.setattr(rank_recording, "_settle", asked)
    with pytest.raises(ZeroDivisionError), rank_recording.record():
        raise ZeroDivisionError


def test_an_exception_passes_and_what_was_recorded_stays():
    with pytest.raises(ZeroDivisionError), rank_recording.record() as recording:
        torch.ones(64, 64) @ torch.ones(64, 64)
        raise ZeroDivisionError
    assert "matmul" in [mark.name for mark in recording.events]


def test_an_exception_in_forward_closes_its_region():
    with rank_recording.record() as recording:
        with pytest.raises(RuntimeError):
            torch.nn.Linear(4, 4)(torch.ones(3, 5))
        torch.ones(64, 64) @ torch.ones(64, 64)
    assert recording.events[-1].name == "matmul"


def patched():
    places = torch.autograd.backward, torch.autograd.grad, dist.ProcessGroup.send
    hooks = modules._global_forward_hooks, modules._global_forward_pre_hooks
    return *places, *map(len, hooks)


def test_hooks_and_patches_are_gone_afterwards():
    before = patched()
    with rank_recording.record():
        during = patched()
    changed = [now is not then for now, then in zip(during, before, strict=True)]
    assert all(changed)
    assert patched() == before


def names_of(recording, *kinds):
    return [mark.name for mark in recording.events if mark.kind in kinds]


def test_a_recording_over_its_limit_is_cut_and_says_so():
    with rank_recording.record(limit=10) as recording:
        for _ in range(30):
            torch.ones(64, 64) @ torch.ones(64, 64)
    assert [mark.kind for mark in recording.events][-1] == "cut"
    with pytest.warns(UserWarning, match="limit of 10 operators.*trace=range"):
        trace = merge_ranks({0: recording.events}, "measured")
    assert trace.source.endswith(" s (10 operators)")


@pytest.fixture
def step(monkeypatch):
    """A training step, of fewer than 100 raw operators."""
    # on a busy machine a phase would be in several pieces
    monkeypatch.setattr(marks, "GAP", 10**12)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def run():
        model(torch.ones(2)).sum().backward()
        optimizer.step()

    run()  # the first has more of them
    return run


def test_what_comes_before_training_is_left_out_first(step):
    x = torch.ones(2)
    with rank_recording.record(limit=500) as recording:
        for _ in range(600):
            x = x + 1
        for _ in range(3):
            step()
    assert names_of(recording, "begin", "cut") == ["training step 0"]
    assert names_of(recording, "compute").count("backward") == 3
    trace = merge_ranks({0: recording.events}, "measured")
    assert trace.source == "measured, from training step 0 on"
    assert trace.events[0].name == "forward" and trace.events[0].start == 0.0


def test_a_first_step_in_which_much_is_compiled_is_left_out_too(step):
    with rank_recording.record(limit=500) as recording:
        step()
        for _ in range(600):
            torch.ones(2)
        for _ in range(20):
            step()
    assert names_of(recording, "begin", "cut") == ["training step 1", "500 operators"]
    assert names_of(recording, "compute").count("backward") > 2


def test_a_short_way_to_the_first_step_stays(step):
    with rank_recording.record(limit=500) as recording:
        for _ in range(40):
            step()
    assert names_of(recording, "begin", "cut") == ["500 operators"]


def test_chosen_steps_alone_are_recorded(step):
    with rank_recording.record(steps=[2, 3]) as recording:
        torch.ones(64, 64) @ torch.ones(64, 64)
        for _ in range(6):
            step()
    assert names_of(recording, "begin", "cut") == ["training step 2"]
    names = names_of(recording, "compute")
    assert [names.count(name) for name in ("forward", "backward", "mm")] == [2, 2, 0]


def test_steps_that_never_come_are_told(step):
    told = pytest.warns(UserWarning, match="step 7 never came, the last of 2 is 1")
    with told, rank_recording.record(steps=[7]) as recording:
        step()
        step()
    assert recording.events == ()


def test_a_long_recording_is_cut_at_the_start_of_a_step(monkeypatch, step):
    with rank_recording.record() as recording:
        step()
        step()
        monkeypatch.setattr(rank_recording, "SECONDS", 0.0)
        step()
    assert names_of(recording, "compute").count("forward") == 2
    last = recording.events[-1]
    assert (last.kind, last.name) == ("cut", "0 s")


def test_a_recording_that_is_late_before_training_begins_anew(step):
    with rank_recording.record() as recording:
        torch.ones(64, 64) @ torch.ones(64, 64)
        recording.since -= int(
            (rank_recording.SECONDS + 1) * 1e9
        )  # as if it had begun then
        for _ in range(3):
            step()
    assert names_of(recording, "begin", "cut") == ["training step 0"]
    names = names_of(recording, "compute")
    assert names.count("backward") == 3 and "mm" not in names


def test_a_recording_does_not_begin_anew_for_ever(monkeypatch):
    monkeypatch.setattr(rank_recording, "SECONDS", 0.0)
    model = torch.nn.Linear(2, 2)
    with rank_recording.record() as recording:
        for _ in range(6):
            model(torch.ones(2))
    assert names_of(recording, "begin", "cut") == ["training step 0", "0 s"]
    assert names_of(recording, "compute").count("forward") == 1


def test_a_compiler_does_not_see_the_recorder(step):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rank_recording.record() as recording:
            compiled(torch.ones(2)).sum().backward()
    assert not torch._dynamo.utils.counters["graph_break"]
    names = names_of(recording, "compute")
    assert "forward" in names and "backward" in names


def test_a_second_profiler_in_the_block_is_told():
    told = pytest.warns(UserWarning, match="another profiler")
    with told, rank_recording.record() as recording, torch.profiler.profile():
        torch.ones(2) + 1
    assert recording.events == ()


# --- real ranks


def train(rank):
    """Three steps of DDP with one bucket per layer of 1 MB; the last takes a while."""
    store, steps = dist.distributed_c10d._get_default_store(), itertools.count()

    def compute(*_):
        """Compute until the other rank is here, too, and while gloo gets a core."""
        name = f"hook of step {next(steps)}"
        store.add(name, 1)
        while store.add(name, 0) < 2:
            torch.ones(64, 64) @ torch.ones(64, 64)
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            torch.ones(256, 256) @ torch.ones(256, 256)

    layers = [torch.nn.Linear(512, 512) for _ in range(4)]
    layers[1].register_full_backward_hook(compute)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=1
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.ones(256, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def lag(rank):
    """Rank 1 computes until rank 0 has entered its all-reduce, and then some more."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(torch.ones(77), async_op=True)
        store.set("entered", "yes")
        work.wait()
        return
    while not store.check(["entered"]):
        torch.ones(64, 64) @ torch.ones(64, 64)
    for _ in range(50):
        torch.ones(256, 256) @ torch.ones(256, 256)
    dist.all_reduce(torch.ones(77))


def talk(rank):
    """A subgroup of rank 0, a message from rank 0, other collectives; then anew."""
    group = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(torch.ones(3), group=group)
        dist.send(torch.ones(5), 1)
    else:
        dist.recv(torch.ones(5), 0)
    dist.all_gather([torch.ones(2), torch.ones(2)], torch.ones(2))
    dist.reduce_scatter(torch.ones(6), [torch.ones(6), torch.ones(6)])
    dist.monitored_barrier()
    dist.destroy_process_group()
    again = dist.FileStore(os.environ["AGAIN"], 2)
    dist.init_process_group("gloo", store=again, rank=rank, world_size=2)
    dist.all_reduce(torch.ones(13))
    dist.destroy_process_group()


def rank_main(rank, world_size, folder):
    os.environ["AGAIN"] = os.path.join(folder, "again")
    with rank_recording.record() as recording:
        store = dist.FileStore(os.path.join(folder, "store"), 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
        train(rank)
        lag(rank)
        talk(rank)
    return recording.events


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return dict(enumerate(launch(rank_main, str(folder), world_size=2)))


@pytest.fixture(scope="module")
def trace(recordings):
    return merge_ranks(recordings, "measured: 2 ranks, gloo, CPU")


@pytest.mark.parametrize("rank", (0, 1))
def test_ddp_reduces_every_layer_of_every_step(trace, rank):
    sizes = [e.bytes for e in trace.select(rank, "communicate", "all_reduce")]
    first = sizes.index(next(size for size in sizes if size >= LAYER))
    assert sum(sizes[:first]) == 0
    assert sizes.count(LAYER) >= 8
    assert sum(size for size in sizes if size >= LAYER) == 3 * 4 * LAYER


@pytest.mark.parametrize("rank", (0, 1))
def test_backward_still_computes_when_the_first_bucket_is_reduced(trace, rank):
    reduces = [e for e in trace.select(rank, "communicate") if e.bytes == LAYER]
    backward = trace.select(rank, "compute", "backward")
    assert any(meets(reduce, piece) for reduce in reduces for piece in backward)


def test_both_ranks_record_the_same_collectives_of_the_group_of_all(recordings):
    first, second = (
        [i for i in identities(recordings[rank]) if i[1] == "gloo:0.0"]
        for rank in (0, 1)
    )
    assert sorted(first) == sorted(second)
    assert len(first) >= 12


def test_a_fast_rank_waits_for_the_rank_that_still_computes(trace):
    fast, slow = (
        next(e for e in trace.select(rank, "communicate") if e.bytes == 4 * 77)
        for rank in (0, 1)
    )
    assert fast.start == slow.start
    waits = [e for e in trace.select(0, "wait") if e.stop == fast.start]
    assert len(waits) == 1
    assert not [e for e in trace.select(1, "wait") if e.stop == slow.start]
    behind = [e for e in trace.select(1, "compute") if happens_before(e, slow)]
    assert not happens_before(behind[-1], waits[0])


def test_a_subgroup_is_no_collective_of_the_others(recordings):
    own = [mark for mark in recordings[0] if mark.bytes == 12 and mark.group]
    assert len(own) == 1
    assert own[0].group not in {mark.group for mark in recordings[1]}


def test_no_all_reduce_of_ddp_lasts_into_the_optimizer(trace):
    steps = trace.select(name="optimizer")
    assert len(steps) >= 6
    for step in steps:
        calls = trace.select(rank=step.rank, name="all_reduce")
        assert not [call for call in calls if call.start < step.start < call.stop]


def test_messages_and_collectives_have_their_names_and_bytes(trace):
    found = {(e.name, e.bytes) for e in trace.select(0, "communicate")}
    wanted = {("all_gather", 8), ("reduce_scatter", 48), ("send", 20)}
    assert wanted <= found
    assert ("monitored_barrier", 0) in found
    assert [e.bytes for e in trace.select(1, "communicate", "recv")] == [20]


def test_a_second_process_group_in_one_process_is_matched_too(recordings, trace):
    last = [recordings[rank][-1] for rank in (0, 1)]
    assert [mark.bytes for mark in last] == [52, 52]
    assert last[0].group == last[1].group != "gloo:0.0"
    ends = {e.start for e in trace.select(kind="communicate") if e.bytes == 52}
    assert len(ends) == 1


FORKED = """
import os
from course_lib.tracing import rank_recording
import torch
if os.fork() == 0:
    with rank_recording.record() as recording:
        torch.ones(64, 64) @ torch.ones(64, 64)
    print(*[mark.name for mark in recording.events], flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_process_records_and_prints_nothing_of_its_own():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True
    )
    assert "matmul" in done.stdout.split()
    assert done.stderr == ""
