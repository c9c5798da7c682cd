"""A trace of real GPUs is read from the profiler's rows, here rows in its format."""

import pytest
import torch

import course_lib as cl
from course_lib.tracing.cuda import memory_changes, read_chrome_trace


def row(category, name, ts, dur, **args):
    """One complete event of a Chrome trace; times in µs."""
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur} | {
        "args": args
    }


def launched(correlation, at, kernel):
    """A kernel or copy, and the call that launched it at `at` µs."""
    kernel["args"]["correlation"] = correlation
    call = row("cuda_runtime", "cudaLaunchKernel", at, 2, correlation=correlation)
    return [call, kernel]


TWO_STAGES = [
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    row("user_annotation", "course_lib: forward", 100, 50),
    row("user_annotation", "course_lib: backward", 200, 50),
    row("user_annotation", "Optimizer.step#SGD.step", 300, 50),
    *launched(1, 110, row("kernel", "sgemm", 1000, 400, device=0)),
    *launched(
        2,
        120,
        row(
            "gpu_memcpy",
            "Memcpy PtoP (Device -> Device)",
            1400,
            100,
            bytes=4096,
            fromDevice=0,
            inDevice=0,
            toDevice=1,
        ),
    ),
    *launched(3, 210, row("kernel", "sgemm", 1500, 300, device=1)),
    *launched(4, 310, row("kernel", "multi_tensor_apply", 1800, 100, device=1)),
    *launched(5, 400, row("kernel", "fill", 1950, 50, device=1)),
]


def test_a_kernel_belongs_to_the_region_in_which_it_was_launched():
    events, _ = read_chrome_trace(TWO_STAGES)
    compute = [(e.rank, e.name) for e in events if e.kind == "compute"]
    assert compute == [
        ("cuda:0", "forward"),
        ("cuda:1", "backward"),
        ("cuda:1", "optimizer"),
        ("cuda:1", "other"),
    ]


def test_what_a_gpu_still_computes_of_a_forward_is_no_phase_of_the_host():
    late = row("gpu_user_annotation", "course_lib: forward", 150, 500, device=0)
    events, _ = read_chrome_trace([*TWO_STAGES, late])
    assert [e.name for e in events] == [
        e.name for e in read_chrome_trace(TWO_STAGES)[0]
    ]


def test_times_are_seconds_from_the_first_kernel():
    events, _ = read_chrome_trace(TWO_STAGES)
    assert (events[0].start, events[0].stop) == pytest.approx((0, 400e-6))
    assert events[-1].stop == pytest.approx(1000e-6)


def test_a_copy_between_gpus_stands_on_both_with_its_bytes_once():
    events, (copy,) = read_chrome_trace(TWO_STAGES)
    assert (copy.source, copy.target, copy.bytes) == ("cuda:0", "cuda:1", 4096)
    both = [(e.rank, e.name, e.bytes) for e in events if e.kind == "communicate"]
    assert both == [
        ("cuda:0", "copy to cuda:1", 4096),
        ("cuda:1", "copy from cuda:0", 0),
    ]


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("cpu", "cuda:1")),
        ("Memcpy DtoH (Device -> Pageable)", ("cuda:1", "cpu")),
    ],
)
def test_a_copy_from_or_to_the_host_names_the_cpu(name, ends):
    _, (copy,) = read_chrome_trace([row("gpu_memcpy", name, 5, 3, device=1, bytes=64)])
    assert (copy.source, copy.target) == ends


def test_a_copy_inside_of_one_gpu_is_compute():
    inside = row("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 5, 3, device=0)
    (event,), transfers = read_chrome_trace([inside])
    assert event.kind == "compute"
    assert transfers == []


def test_several_regions_of_one_name_are_numbered():
    rows = [
        row("user_annotation", "course_lib: forward", 100, 10),
        row("user_annotation", "course_lib: forward", 200, 10),
        *launched(1, 105, row("kernel", "sgemm", 1000, 10, device=0)),
        *launched(2, 205, row("kernel", "sgemm", 1010, 10, device=0)),
    ]
    events, _ = read_chrome_trace(rows)
    assert [event.name for event in events] == ["forward 0", "forward 1"]


def test_an_empty_profile_is_an_empty_trace():
    assert read_chrome_trace([]) == ([], [])


def test_the_allocators_history_gives_what_was_taken_and_freed():
    history = [
        [
            {"action": "alloc", "size": 512, "addr": 1, "time_us": 1_000_000},
            {"action": "free_requested", "size": 512, "addr": 1, "time_us": 1_000_400},
            {"action": "free_completed", "size": 512, "addr": 1, "time_us": 1_000_500},
        ],
        [{"action": "alloc", "size": 1024, "addr": 2, "time_us": 1_000_100}],
    ]
    changes = list(memory_changes(history))
    assert [(c.device, c.bytes) for c in changes] == [
        ("cuda:0", 512),
        ("cuda:0", -512),
        ("cuda:1", 1024),
    ]
    assert [c.time for c in changes] == pytest.approx([0, 500e-6, 100e-6])


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_real_gpus_give_a_measured_trace():
    one, two = cl.devices(2)
    assert one.type == "cuda"
    with cl.trace() as trace:
        (torch.rand(512, 512, device=one) @ torch.rand(512, 512, device=one)).to(two)
    assert trace.source.startswith("measured")
    assert {"cuda:0", "cuda:1"} == set(trace.ranks)
    (copy,) = [t for t in trace.transfers if t.target == "cuda:1"]
    assert copy.bytes == 4 * 512 * 512


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_data_parallel_on_two_real_gpus_shows_what_nccl_does():
    one, two = cl.devices(2)
    parallel = torch.nn.DataParallel(torch.nn.Linear(4, 4).to(one), [one, two])
    with cl.trace() as trace:
        parallel(torch.rand(8, 4, device=one)).sum().backward()
    for gpu in ("cuda:0", "cuda:1"):
        assert {"broadcast", "reduce"} <= trace.calls(gpu).keys()
    assert trace.source.endswith("bytes that NCCL moved are not told")
