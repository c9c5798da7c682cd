"""What a virtual GPU costs: operators and training steps on it and on the plain CPU."""

import copy
import statistics
import time

from benchmarks import report

ROUNDS = 9
COUNT = 2000  # calls of an operator in a round
_SMALL = "lessons 02, 03: the small network, batch 64"
_INTRODUCTION = """# Virtual GPUs

The same operators and training steps (forward, backward, optimizer) on the CPU and on
a virtual GPU, whose ledger and clock are always on; inside of `with cl.trace()`, too.
One thread, alternating in {} rounds: median of a round's mean (smallest to largest).
"""
_FLOOR = """\
The small network's step on a class of tensors that only wraps, without bytes, clock or
checks, takes {:.2f} times as long as on the CPU: no virtual GPU in Python is faster.
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
        _SMALL: small(64, 64),
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
        report.say(f"virtual: {name}")
        plain, virtual = _alternate([make("cpu"), make(device)], COUNT, rounds)
        extra = (statistics.median(virtual) - statistics.median(plain)) * 1e6
        rows.append([name, *map(_micro, (plain, virtual)), f"{extra:.1f} µs"])
    parts = [report.table(["operator", "CPU", "virtual GPU", "more"], rows)]
    steps = [_row(*case, rounds) for case in models().items()]
    parts += [report.table(_HEAD, steps), _floor(rounds), _PROFILE]
    return "\n".join([_INTRODUCTION.format(rounds), *parts, report.conditions()])


_HEAD = ["training step", "CPU", "virtual GPU", "ratio", "traced"]


def _row(name, case, rounds):
    from course_lib.accelerators.selection import devices
    from course_lib.tracing.device_trace import trace

    report.say(f"virtual: {name}")
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


def _floor(rounds):
    """What a tensor class in Python costs that does nothing but wrap another tensor."""
    model, shape = models()[_SMALL]
    steps = [_step(copy.deepcopy(model), shape, "cpu"), _bare_step(model, shape)]
    plain, bare = _alternate(steps, 30, rounds)
    ratio = statistics.median(bare) / statistics.median(plain)
    return _FLOOR.format(ratio)


def _bare_step(model, shape):
    """A training step on tensors that wrap those of the CPU, and do no more."""
    import torch
    from torch.optim import optimizer

    class Bare(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            given = [opened(value) for value in args]
            out = func(*given, **kwargs) if kwargs else func(*given)
            if type(out) is not torch.Tensor:
                return out
            return args[0] if out is given[0] else wrapped(out)

    def opened(value):
        if type(value) is Bare:
            return value.inner
        return [opened(one) for one in value] if type(value) is list else value

    def wrapped(inner):
        shape = inner.size(), inner.stride(), inner.storage_offset()
        kind = None, inner.dtype, inner.layout, inner.device
        tensor = torch.Tensor._make_wrapper_subclass(Bare, *shape, *kind)
        tensor.inner = inner
        return tensor

    optimizer._foreach_supported_types.append(Bare)
    model = copy.deepcopy(model)
    for module in model:
        for name, parameter in list(module.named_parameters()):
            setattr(module, name, torch.nn.Parameter(wrapped(parameter.detach())))
    return _trained(model, wrapped(torch.rand(shape)), foreach=True)


def _step(model, shape, device):
    import torch

    return _trained(model.to(device), torch.rand(shape).to(device))


def _trained(model, x, **options):
    """A step of SGD with momentum, on the same batch each time."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **options)

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
