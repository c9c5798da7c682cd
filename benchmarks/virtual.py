"""What a virtual GPU costs: operators and training steps on it and on the plain CPU."""

import copy
import statistics
import sys
import time

from benchmarks import report

ROUNDS = 9
COUNT = 2000  # calls of an operator in a round
_INTRODUCTION = """# Virtual GPUs

The same operators and training steps (forward, backward, optimizer) on the CPU and on
a virtual GPU, whose ledger and clock are always on; inside of `with cl.trace()`, too.
One thread, alternating in {} rounds: median of a round's mean (smallest to largest).
"""
_PROFILE = """\
Above 1.1 times, PyTorch's profiler (2026-11-21) says why: between large operators,
which empty the caches, one costs 30 to 35 µs, and there are 91 in the wide model's step
at batch 64, 342 in the transformer's. The transformer's dropout also takes the way of
CUDA, one operator, which a CPU runs 5 ms slower.
"""


def operators():
    """Small operators by name, each a function of a device."""
    import torch

    def case(run):
        def on(device):
            x, y = torch.rand(4, 4).to(device), torch.rand(4, 4).to(device)
            return lambda: run(x, y)

        return on

    return {
        "`x + y`, 4 × 4": case(lambda x, y: x + y),
        "`x @ y`, 4 × 4": case(lambda x, y: x @ y),
        "`x.sum()`": case(lambda x, y: x.sum()),
        "`x.add_(y)`, in place": case(lambda x, y: x.add_(y)),
        "`x.view(16)`": case(lambda x, y: x.view(16)),
    }


def models():
    """Models of lessons 01 to 03 with the shape of a batch, and a transformer."""
    from torch import nn

    def wide(width, batch):
        layers = [nn.Linear(64, width), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10)), (batch, 64)

    def convolutions(channels, batch, scale=1):
        side, layers = 8 * scale, [nn.Upsample(scale_factor=scale)]
        for inputs in (1, channels):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()]
        layers += [nn.Flatten(), nn.Linear(channels * side * side, 10)]
        return nn.Sequential(*layers), (batch, 1, 8, 8)

    def small(width, batch):
        layers = nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)
        return nn.Sequential(*layers), (batch, 64)

    def transformer(width, batch):
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        return nn.TransformerEncoder(layer, 2), (batch, 32, width)

    return {
        "lesson 01: 6 layers of 2048, batch 512": wide(2048, 512),
        "lesson 01: 6 layers of 1024, batch 1024": wide(1024, 1024),
        "lesson 02: convolutions of 64 × 64, batch 256": convolutions(8, 256, 8),
        "lesson 03: 6 layers of 1024, batch 64": wide(1024, 64),
        "lesson 03: convolutions, 64 channels, batch 512": convolutions(64, 512),
        "lessons 02, 03: the small network, batch 64": small(64, 64),
        "a transformer, 2 layers of 256, batch 16": transformer(256, 16),
    }


def run(rounds: int | None = None) -> str:
    """Measure all cases; a report in Markdown comes back."""
    import torch

    from course_lib.accelerators.selection import devices

    torch.set_num_threads(1)
    (device,) = devices(1, quiet=True)
    rounds, rows = rounds or ROUNDS, []
    cases = operators()
    for name, make in cases.items():
        print(f"virtual: {name}", file=sys.stderr, flush=True)
        plain, virtual = _alternate([make("cpu"), make(device)], COUNT, rounds)
        extra = (statistics.median(virtual) - statistics.median(plain)) * 1e6
        rows.append([name, *map(_micro, (plain, virtual)), f"{extra:.1f} µs"])
    parts = [report.table(["operator", "CPU", "virtual GPU", "more"], rows)]
    parts.append(
        report.table(_HEAD, [_row(*case, rounds) for case in models().items()])
    )
    parts.append(_PROFILE)
    return "\n".join([_INTRODUCTION.format(rounds), *parts, report.conditions()])


_HEAD = ["training step", "CPU", "virtual GPU", "ratio", "traced"]


def _row(name, case, rounds):
    from course_lib.accelerators.selection import devices
    from course_lib.tracing.record import trace

    print(f"virtual: {name}", file=sys.stderr, flush=True)
    (device,) = devices(1, quiet=True)
    model, shape = case
    steps = [_step(copy.deepcopy(model), shape, place) for place in ("cpu", device)]

    def traced():
        with trace():
            steps[1]()

    plain, virtual, noted = _alternate([*steps, traced], 3, rounds)
    ratios = [statistics.median(t) / statistics.median(plain) for t in (virtual, noted)]
    cells = [f"{ratio:.2f} ×" for ratio in ratios]
    return [name, _micro(plain), _micro(virtual), *cells]


def _step(model, shape, device):
    import torch

    model, x = model.to(device), torch.rand(shape).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def _alternate(functions, count, rounds):
    """Seconds per call of each function, one number per round."""
    times = [[] for _ in functions]
    for turn in range(rounds + 1):
        for own, function in zip(times, functions, strict=True):
            began = time.perf_counter()
            for _ in range(count):
                function()
            if turn:  # the first round warms up
                own.append((time.perf_counter() - began) / count)
    return times


def _micro(values):
    middle = statistics.median(values) * 1e6
    low, high = min(values) * 1e6, max(values) * 1e6
    return f"{middle:,.1f} µs ({low:,.1f} to {high:,.1f})"
