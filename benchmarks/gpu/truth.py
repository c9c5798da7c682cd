"""Measured: steps, peaks of memory, rates, launches. The model is held against them."""

import contextlib
import itertools
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from benchmarks import trained
from benchmarks.gpu.keeping import Findings

PRECISIONS = ("float32", "tfloat32", "amp-bf16", "amp16")
RECOMPUTED = [
    (precision, name)
    for precision in ("float32", "amp-bf16")
    for name in ("GPT-2", "MPT-125m")
]
# network, batch, sequence or side of an image
SIZES = [
    ("ResNet-50", 64, 224),
    ("GPT-2", 8, 1024),
    ("MPT-125m", 8, 1024),
    ("BERT-base", 32, 128),
]


def main(out: str) -> None:
    """Measure what is left of the time, the most wanted first."""
    findings = Findings(out, "truth")
    device = "cuda" if torch.cuda.device_count() else "cpu"
    if device == "cpu":
        print("no GPU here: small sizes, on the CPU, to see that it runs")
        torch.set_num_threads(1)  # two on busy cores wait for each other
    for part in (
        launches,
        rates,
        copies,
        small_networks,
        optimizers,
        messages,
        networks,
    ):
        with findings.attempt(part.__name__):
            part(findings, device)


def synchronize():
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def spread(times) -> dict:
    """Median, quartiles and extremes in seconds."""
    low, middle, high = statistics.quantiles(times, n=4)
    ends = {"least": min(times), "most": max(times), "n": len(times)}
    return {"median": middle, "quartiles": [low, high], **ends}


def timed(call, *, rounds=11, warm=3) -> dict:
    """Wall-clock seconds of a call with a wait for the GPU before and after."""
    times = []
    for number in range(warm + rounds):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        if number >= warm:
            times.append(time.perf_counter() - start)
    return spread(times)


def on_gpu(call, *, rounds=21, warm=5) -> dict:
    """Seconds between two events of the GPU around a call."""
    if not torch.cuda.is_available():
        return timed(call, rounds=3, warm=1)
    times = []
    for number in range(warm + rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        if number >= warm:
            times.append(start.elapsed_time(stop) / 1e3)
    return spread(times)


def launches(findings, device):
    """What the host pays per operator, and the shortest kernels."""
    x = torch.ones(1, device=device)
    a, b = torch.ones(32, 32, device=device), torch.ones(32, 32, device=device)
    layer, norm = nn.Linear(32, 32).to(device), nn.BatchNorm1d(32).to(device)
    calls = {
        "add_ of one number": lambda: x.add_(1),
        "add, new tensor": lambda: x + 1,
        "matmul 32x32": lambda: a @ b,
        "Linear with autograd": lambda: layer(a),
        "BatchNorm with autograd": lambda: norm(a),
    }
    found = {name: per_operator(call) for name, call in calls.items()}
    findings.keep("host per operator", found)
    found = {name: kernels(call) for name, call in calls.items()}
    findings.keep("kernels, µs", found)


def per_operator(call, count=200) -> dict:
    """Seconds of the host per call, and until the GPU has done all of them."""
    times = []
    for _ in range(12):
        synchronize()
        start = time.perf_counter()
        for _ in range(count):  # fewer than the queue of launches holds
            call()
        middle = time.perf_counter()
        synchronize()
        stop = time.perf_counter()
        times.append(((middle - start) / count, (stop - start) / count))
    host, whole = zip(*times[2:])
    return {"host": spread(host), "until done": spread(whole)}


def kernels(call, count=50) -> dict:
    """Microseconds of each kernel of a call, by its name."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(count):
            call()
        synchronize()
    lasted = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times = lasted.setdefault(event.name[:60], [])
            times.append(event.time_range.elapsed_us())
    return {name: spread(times) for name, times in lasted.items() if len(times) > 2}


def rates(findings, device):
    """Matrix products and element-wise passes of several sizes."""
    sizes = (512, 2048, 8192) if device == "cuda" else (256,)
    found = {
        f"{precision} {size}": product(precision, size, device)
        for precision in ("float64", "float32", "tfloat32", "float16", "bfloat16")
        for size in sizes
        if precision != "float64" or size < 4096
    }
    findings.keep("matmul, TFLOP/s", found)
    counts = (2**20, 2**24, 2**28) if device == "cuda" else (2**20,)
    found = {count: addition(count, device) for count in counts}
    findings.keep("add, GB/s read and written", found)


def product(precision, size, device) -> float:
    """TFLOP/s of a product of two square matrices."""
    dtype = getattr(torch, precision.replace("tf", "f"))
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    torch.backends.cuda.matmul.allow_tf32 = precision == "tfloat32"
    spent = on_gpu(lambda: a @ b, rounds=7, warm=3)
    torch.backends.cuda.matmul.allow_tf32 = False
    return 2 * size**3 / spent["median"] / 1e12


def addition(count, device) -> float:
    """GB/s of an addition of one number to `count` numbers."""
    a, b = (torch.randn(count, device=device) for _ in range(2))
    spent = on_gpu(lambda: torch.add(a, 1, out=b))
    return 8 * count / spent["median"] / 1e9


def copies(findings, device):
    """Between host and GPU, pinned or not."""
    if device == "cuda":
        found = {
            f"{'pinned' if pinned else 'pageable'} {size}": both_ways(size, pinned)
            for size in (2**12, 2**20, 2**28)
            for pinned in (False, True)
        }
        findings.keep("copies up and down, seconds", found)


def both_ways(size, pinned) -> list[float]:
    """Seconds of a copy to the GPU and of one back."""
    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    here = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    up = timed(lambda: there.copy_(here, non_blocking=pinned))
    down = timed(lambda: here.copy_(there, non_blocking=pinned))
    return [up["median"], down["median"]]


def wide(width=2048):
    """The network of lesson 01."""
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(64, width), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def convolutions():
    """The network of lesson 02."""
    torch.manual_seed(0)
    layers = [nn.Upsample(scale_factor=8)]
    for channels in (1, 8):
        layers += [nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64 * 64, 10))


def peaks(work) -> dict:
    """Bytes at the peak of a call, by torch and by the allocator's segments."""
    if not torch.cuda.is_available():
        work()
        return {}
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return {
        "before": before,
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def small_networks(findings, device):
    """Steps of lessons 01 to 03: seconds and peaks."""
    for name, make, shape, batches in (
        ("wide 2048", wide, (64,), (8, 64, 512)),
        ("wide 1024", lambda: wide(1024), (64,), (64, 1024)),
        ("convolutions", convolutions, (1, 8, 8), (1, 8, 64, 256)),
    ):
        for batch in batches if device == "cuda" else batches[:1]:
            row = small_network(make().to(device), (batch, *shape), device)
            findings.keep(f"{name}, batch {batch}", row)


def small_network(model, shape, device) -> dict:
    """A step with Adam and its peak; forward and backward alone."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.rand(*shape, device=device)
    y = torch.randint(10, shape[:1], device=device)

    def forward_backward():
        cross_entropy(model(x), y).backward()

    def step():
        optimizer.zero_grad()
        forward_backward()
        optimizer.step()

    step()
    row = {"step": timed(step), "peak": peaks(step)}
    optimizer.zero_grad()
    return row | {"forward and backward": timed(forward_backward)}


def optimizers(findings, device):
    """Peaks of Adam in its three forms, in bytes per parameter; the step's seconds."""
    found = {}
    for form in ({"foreach": False}, {"foreach": True}, {"fused": True}, {}):
        model = wide(4096 if device == "cuda" else 256).to(device)
        count = sum(p.numel() for p in model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer = torch.optim.Adam(model.parameters(), **form)
        optimizer.step()
        peak = peaks(optimizer.step)
        each = {k: v / count for k, v in peak.items()}
        found[str(form)] = {"bytes per parameter": each, "step": timed(optimizer.step)}
        del model, optimizer
    findings.keep("Adam", found)


def messages(findings, device):
    """The words of a real out-of-memory, at a full GPU and at a fraction."""
    if device == "cpu":
        return

    def full():
        kept = []
        for _ in range(100):
            kept.append(torch.ones(2**31, device=device))

    def fraction():
        model = wide().to(device)
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.rand(512, 64, device=device)
        for _ in range(2):
            model(x).sum().backward()
            optimizer.step()

    ones = torch.ones(2, 3, device=device)
    words = {"full": raised(full)}
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2.4e8 / total)
    words["fraction"] = raised(fraction)
    torch.cuda.set_per_process_memory_fraction(1.0)
    words["two devices"] = raised(lambda: ones + torch.ones(2, 3))
    words["no such GPU"] = raised(lambda: torch.ones(1, device="cuda:7"))
    words["shapes"] = raised(lambda: ones @ ones)
    findings.keep("words", words)


def raised(call) -> str:
    """The error of a call in PyTorch's own words."""
    torch.cuda.empty_cache()
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def networks(findings, device):
    """Steps of known networks in four precisions, with and without recomputation."""
    sizes = SIZES if device == "cuda" else [("GPT-2", 1, 16)]
    precisions = PRECISIONS if device == "cuda" else PRECISIONS[:1]
    for precision, (name, *shape) in itertools.product(precisions, sizes):
        for recompute in (False, True):
            if recompute and (precision, name) not in RECOMPUTED:
                continue
            label = f"{name} {shape[0]}x{shape[1]} {precision}"
            if recompute:
                label += " recomputed"
            with findings.attempt(label):
                row = network(name, shape, (precision, recompute, device))
                findings.keep(label, row)


class Recomputed(nn.Module):
    """A block whose activations are computed again in backward."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *inputs):
        """As the block."""
        return checkpoint(self.block, *inputs, use_reentrant=False)


def network(name, shape, how) -> dict:
    """One network: seconds of a step and of its optimizer, bytes at the peak."""
    device = how[2]
    step, optimizer = training(name, shape, how)
    step()
    rounds = 7 if device == "cuda" else 3
    return {
        "parameters": sum(p.numel() for p in optimizer.param_groups[0]["params"]),
        "step": timed(step, rounds=rounds, warm=2),
        "optimizer": timed(optimizer.step, rounds=rounds, warm=1),
        "peak": peaks(step),
    }


def training(name, shape, how):
    """A training step of a network, to be called, and its optimizer."""
    precision, recompute, device = how
    torch.backends.cuda.matmul.allow_tf32 = precision == "tfloat32"
    torch.backends.cudnn.allow_tf32 = precision == "tfloat32"
    dtype = {"amp-bf16": torch.bfloat16, "amp16": torch.float16}.get(precision)
    with torch.device(device):
        model = trained.network(name, shape[1])
    if recompute:
        model.blocks = nn.ModuleList(map(Recomputed, model.blocks))
    if name == "ResNet-50":
        x = torch.randn(shape[0], 3, shape[1], shape[1], device=device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    else:
        x = torch.randint(5000, tuple(shape), device=device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kind = torch.device(device).type

    def step():
        optimizer.zero_grad()
        with torch.autocast(kind, dtype) if dtype else contextlib.nullcontext():
            out = model(x)
            target = out.new_zeros(len(out), *out.shape[2:], dtype=torch.int64)
            loss = cross_entropy(out, target)
        loss.backward()
        optimizer.step()

    return step, optimizer


if __name__ == "__main__":
    main(sys.argv[1])
