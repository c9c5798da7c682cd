"""Modelled time: roofline, links, queues and launches, by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.parallel import comm

from course_lib.accelerators.hardware import GPUS, LINKS, achievable
from course_lib.accelerators.vgpu.operators import SHORTEST
from course_lib.accelerators.virtual import LAUNCH, machine
from course_lib.errors import UsageError
from course_lib.tracing.device_trace import trace
from tests.lasting import lasts

A100, NVLINK, PCIE = GPUS["A100"], LINKS["NVLink3"], LINKS["PCIe4"]


def now():
    """The host's time in seconds, without waiting for a device."""
    return machine.clock.host


@pytest.fixture
def free(virtual):
    """Three devices at their peaks whose host and links cost nothing."""
    return virtual(3, rates="peak", link="ideal", launch=0)


def test_devices_have_the_rates_that_training_reaches_unless_peaks_are_named(virtual):
    sheets, sources = [], []
    for options in ({}, {"gpu": "A100"}, {"rates": "peak"}, {"gpu": A100}):
        virtual(1, **options)
        sheets.append(machine.place(0).gpu)
        sources.append(machine.source)
    assert sheets == [achievable("A100")] * 2 + [A100] * 2
    ends = [source.rpartition("; ")[2] for source in sources]
    assert ends == ["reached rates, median error 12 %"] * 2 + ["peak rates"] * 2
    with pytest.raises(UsageError, match="cannot model 'sheet' rates: known are"):
        virtual(1, rates="sheet")


def test_no_kernel_is_shorter_than_the_shortest(free):
    a = torch.ones(8, 8, device=free[0])
    assert lasts(free[0], lambda: a @ a) == pytest.approx(SHORTEST)
    assert lasts(free[0], lambda: a + a) == pytest.approx(SHORTEST)


def test_a_narrow_product_is_limited_by_memory(free):
    a, b = torch.ones(2**20, 8, device=free[0]), torch.ones(8, 1, device=free[0])
    bytes = a.nbytes + b.nbytes + 4 * 2**20
    assert lasts(free[0], lambda: a @ b) == pytest.approx(bytes / A100.bandwidth)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_large_product_is_limited_by_arithmetic(free, dtype):
    kind = getattr(torch, dtype)
    a, b = (torch.empty(1024, 1024, dtype=kind, device=free[0]) for _ in range(2))
    arithmetic = 2 * 1024**3 / A100.flops[dtype]
    memory = 3 * 1024**2 * kind.itemsize / A100.bandwidth
    assert lasts(free[0], lambda: a @ b) == pytest.approx(max(arithmetic, memory))


def test_a_layer_costs_two_operations_per_weight_and_row(free):
    layer = nn.Linear(1024, 1024).to(free[1])
    batch = torch.empty(1024, 1024, device=free[1])
    want = 2 * 1024**3 / A100.flops["float32"]
    assert lasts(free[1], lambda: layer(batch)) == pytest.approx(want)


def test_an_operator_on_each_number_moves_what_it_reads_and_writes(free):
    tensor = torch.ones(1_000_000, device=free[0])
    seconds = lasts(free[0], lambda: tensor + tensor)
    assert seconds * A100.bandwidth in (
        pytest.approx(2 * tensor.nbytes),  # the same memory, read once
        pytest.approx(3 * tensor.nbytes),
    )
    assert lasts(free[0], tensor.exp) * A100.bandwidth == pytest.approx(8e6)


def test_a_lookup_moves_its_rows_and_not_the_table(free):
    table = torch.ones(300_000, 16, device=free[0])
    rows = torch.arange(100_000, device=free[0])
    bytes = lasts(free[0], lambda: table[rows]) * A100.bandwidth
    assert bytes == pytest.approx(2 * 100_000 * 16 * 4)


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[1:], torch.empty_like, torch.Tensor.detach]
)
def test_views_and_memory_without_numbers_take_no_time(free, view):
    tensor = torch.ones(10, 10, device=free[0])
    assert lasts(free[0], lambda: view(tensor)) == 0


@pytest.mark.parametrize("gpu", ["T4", "H100"])
def test_another_gpu_has_another_speed(virtual, gpu):
    (device,) = virtual(1, gpu=gpu, rates="peak", launch=0)
    a = torch.empty(512, 512, device=device)
    peak, bandwidth = GPUS[gpu].flops["float32"], GPUS[gpu].bandwidth
    want = max(2 * 512**3 / peak, 3 * 4 * 512**2 / bandwidth)
    b = torch.empty(512, 512, device=device)
    assert lasts(device, lambda: a @ b) == pytest.approx(want)


@pytest.fixture
def switches():
    """PyTorch's switches for TF32 as they are at first, put back afterwards."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    places = cudnn.conv, cudnn.rnn, matmul
    before = [place.fp32_precision for place in places]
    # a check that ran in this process may have changed them
    cudnn.conv.fp32_precision = cudnn.rnn.fp32_precision = "tf32"
    yield cudnn.conv, matmul
    for place, precision in zip(places, before):
        place.fp32_precision = precision


def rates(device):
    """FLOP/s of a convolution and of a product that arithmetic limits, in float32."""
    conv = nn.Conv2d(256, 256, 3, bias=False, device=device)
    image, square = (
        torch.empty(n, device=device) for n in ((4, 256, 34, 34), (1024,) * 2)
    )
    flops = 2 * 4 * 32 * 32 * 256 * 256 * 9, 2 * 1024**3
    times = lasts(device, lambda: conv(image)), lasts(device, lambda: square @ square)
    return [pytest.approx(f / t) for f, t in zip(flops, times, strict=True)]


def test_convolutions_use_tf32_and_products_do_not_unless_told(free, switches):
    plain, tensor = A100.flops["float32"], A100.flops["tfloat32"]
    assert rates(free[0]) == [tensor, plain]
    torch.set_float32_matmul_precision("high")
    assert rates(free[0]) == [tensor, tensor]
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    assert rates(free[0]) == [plain, plain]


def test_the_older_switches_count_as_well(free, switches):
    plain, tensor = A100.flops["float32"], A100.flops["tfloat32"]
    torch.backends.cuda.matmul.allow_tf32 = True
    assert rates(free[0]) == [tensor, tensor]
    torch.backends.cuda.matmul.allow_tf32 = False
    # what `torch.backends.cudnn.allow_tf32` sets: torch.testing, once it is imported,
    # forbids the flag itself
    torch._C._set_cudnn_allow_tf32(False)
    assert rates(free[0]) == [plain, plain]


def test_no_switch_makes_a_v100_or_half_precision_faster(virtual, switches):
    (device,) = virtual(1, gpu="V100", rates="peak", launch=0)
    torch.set_float32_matmul_precision("high")
    assert rates(device) == [GPUS["V100"].flops["float32"]] * 2
    a = torch.empty(1024, 1024, dtype=torch.float64, device=device)
    want = 2 * 1024**3 / GPUS["V100"].flops["float64"]
    assert lasts(device, lambda: a @ a) == pytest.approx(want)


# --- links


def test_a_copy_takes_latency_and_bytes_over_bandwidth(devs):
    tensor = torch.ones(250_000, device=devs[0])
    with trace() as result:
        tensor.to(devs[1])
    (copy,) = result.transfers
    want = NVLINK.latency + 1e6 / NVLINK.bandwidth
    assert copy.stop - copy.start == pytest.approx(want)


def test_a_copy_from_and_to_the_host_takes_pcie(devs):
    with trace() as result:
        torch.ones(250_000).to(devs[1]).cpu()
    want = PCIE.latency + 1e6 / PCIE.bandwidth
    lengths = [copy.stop - copy.start for copy in result.transfers]
    assert lengths == [pytest.approx(want)] * 2


def test_a_copy_occupies_both_of_its_devices(devs):
    x, y = (torch.ones(250_000, device=d) for d in devs[:2])
    torch.vgpu.synchronize(0), torch.vgpu.synchronize(1)
    with trace() as result:
        x.to(devs[1])
        x.add(1), y.add(1)
    (copy,) = result.transfers
    starts = [e.start for e in result if e.kind == "compute"]
    assert len(starts) == 2 and min(starts) >= copy.stop


def test_two_pairs_of_devices_copy_at_the_same_time(virtual):
    devs = virtual(4, launch=0)
    x, y = torch.ones(250_000, device=devs[0]), torch.ones(250_000, device=devs[2])
    with trace() as result:
        x.to(devs[1]), y.to(devs[3])
    first, second = result.transfers
    assert (first.start, first.stop) == (second.start, second.stop)


def test_an_ideal_link_and_no_launch_cost_nothing(free):
    x = torch.ones(1000, device=free[0])
    with trace() as result:
        x.to(free[1]).cpu().to(free[2])
    assert result.span == 0 and len(result.transfers) == 3


# --- host and queues


def test_the_host_pays_for_each_launch_and_runs_ahead(virtual):
    (device,) = virtual(1, rates="peak")
    x = torch.ones(30_000_000, device=device)
    torch.vgpu.synchronize(0)
    before = now()
    for _ in range(10):
        x.add_(1)
    assert now() - before == pytest.approx(10 * LAUNCH)
    torch.vgpu.synchronize(0)
    assert now() - before == pytest.approx(LAUNCH + 10 * 24e7 / A100.bandwidth)


@pytest.mark.parametrize(
    "launches, work",
    [
        (1, lambda xs: xs[0] + 1),
        (0.25, lambda xs: xs[0].to(torch.bfloat16)),
        (4, lambda xs: torch._foreach_add_(xs, 1)),
        (4, lambda xs: torch._foreach_sqrt(xs)),
    ],
    ids=["operator", "change of type", "list", "list that is returned"],
)
def test_the_host_pays_by_kind_of_operator(virtual, launches, work):
    [device] = virtual(1, launch=1e-3)
    xs = [torch.ones(4, device=device) for _ in range(3)]
    before = now()
    work(xs)
    assert now() - before == pytest.approx(launches * 1e-3)


@pytest.mark.parametrize("rates, share", [("peak", 1), ("reached", 2)])
def test_a_convolution_reaches_half_of_what_a_product_reaches(
    virtual, switches, rates, share
):
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    [device] = virtual(1, rates=rates, launch=0)
    images = torch.ones(8, 256, 32, 32, device=device)
    layer = nn.Conv2d(256, 256, 1, bias=False, device=device)
    rows = torch.ones(8 * 32 * 32, 256, device=device)
    with torch.no_grad():
        convolution = lasts(device, lambda: layer(images))
        product = lasts(device, lambda: rows @ layer.weight[:, :, 0, 0].T)
    assert convolution == pytest.approx(share * product)


def test_small_operators_wait_for_their_launch(virtual):
    (device,) = virtual(1, launch=1e-3)
    x = torch.ones(10, device=device)
    with trace() as result:
        for _ in range(4):
            x.add_(1)
    starts = [event.start for event in result]
    assert starts == pytest.approx([1e-3, 2e-3, 3e-3, 4e-3])


READERS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "print": repr,
    "list": lambda x: x.tolist(),
    "truth": lambda x: bool((x > 0).all()),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "synchronize": lambda x: torch.vgpu.synchronize(x.device),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_whoever_reads_a_number_waits_for_the_device(devs, read):
    x = torch.ones(100, device=devs[1])
    for _ in range(3):
        torch.ones(5_000_000, device=devs[1])
    busy = machine.clock.free[1]
    assert now() < busy
    read(x)
    assert now() >= busy


def test_devices_work_at_the_same_time(virtual):
    devs = virtual(3, rates="peak")
    tensors = [torch.ones(30_000_000, device=device) for device in devs]
    for device in devs:
        torch.vgpu.synchronize(device)
    with trace() as result:
        for tensor in tensors:
            tensor.add_(1)
    one = 24e7 / A100.bandwidth
    assert result.span == pytest.approx(one + 2 * LAUNCH)


# --- a pipeline


def pipeline(devs, m, *, rows, width=64):
    """Forward of `m` micro-batches through a layer on each device, GPipe's order."""
    layers = [nn.Linear(width, width, bias=False).to(device) for device in devs]
    parts = torch.ones(rows, width, device=devs[0]).chunk(m)
    for device in devs:
        torch.vgpu.synchronize(device)
    with torch.no_grad(), trace() as result:
        for part in parts:
            for layer, device in zip(layers, devs):
                part = layer(part.to(device))
    return result


@pytest.mark.parametrize("p", [2, 3, 4])
@pytest.mark.parametrize("m", [1, 2, 4, 8, 16])
def test_the_idle_share_of_gpipe_is_that_of_the_formula(virtual, p, m):
    devs = virtual(p, link="ideal", launch=0)
    result = pipeline(devs, m, rows=16 * m)
    idle = 1 - sum(result.busy(str(device)) for device in devs) / p
    assert idle == pytest.approx((p - 1) / (m + p - 1), abs=5e-4)


def test_too_many_micro_batches_lose_again_what_they_gained(virtual):
    # a GPU of a hundredth of the speed, so that small layers take their time
    flops = {dtype: peak / 100 for dtype, peak in A100.flops.items()}
    slow = replace(A100, flops=flops, bandwidth=A100.bandwidth / 100)
    spans = {}
    for m in (1, 2, 4, 8, 64, 256):
        devs = virtual(4, gpu=slow, launch=6e-6)
        spans[m] = pipeline(devs, m, width=128, rows=2048).span
    best = min(spans, key=spans.get)
    assert 1 < best < 256
    assert spans[256] > 1.5 * spans[best] and spans[1] > 1.5 * spans[best]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_ring_lasts_as_one_copy_and_a_latency_for_each_further_device(virtual, count):
    devs = virtual(count)
    x = torch.empty(1_000_000, device=devs[0])
    with trace() as result:
        comm.broadcast(x, devs)
    hops = [copy.start for copy in result.transfers]
    assert len(hops) == count - 1
    seconds = result.transfers[-1].stop - result.transfers[0].start
    want = (count - 1) * NVLINK.latency + x.nbytes / NVLINK.bandwidth
    assert seconds == pytest.approx(want)
    assert hops[0] == pytest.approx(count * machine.clock.launch)


def test_a_star_lasts_as_long_as_all_its_copies(virtual):
    devs = virtual(4, launch=0, nccl=False)
    x = torch.empty(1_000_000, device=devs[0])
    with trace() as result:
        comm.broadcast(x, devs)
    one = NVLINK.latency + x.nbytes / NVLINK.bandwidth
    assert result.span == pytest.approx(3 * one)


def test_a_ring_waits_for_all_its_devices(virtual):
    devs = virtual(3)
    parts = [torch.ones(1000, device=device) for device in devs]
    work = torch.empty(2048, 2048, device=devs[1])
    with trace() as result:
        work @ work
        comm.reduce_add(parts, 0)
    [busy] = result.select("vgpu:1", "compute").events
    assert all(copy.start >= busy.stop for copy in result.transfers)


def test_two_runs_take_the_same_time_to_the_last_digit(virtual):
    def run():
        devs = virtual(3)
        model = nn.DataParallel(nn.Linear(64, 64).to(devs[0]), device_ids=devs)
        with trace() as result:
            model(torch.ones(30, 64)).sum().backward()
        return result

    first, second = run(), run()
    assert first.events == second.events and first.transfers == second.transfers
    assert first.memory == second.memory and len(first) > 10
