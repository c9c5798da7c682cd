"""What an all-reduce takes on this machine, beside the α–β model and other ways."""

import statistics
import time

from benchmarks import report
from course_lib import text
from course_lib.accelerators.alpha_beta import ALGORITHMS, Fit, fit
from course_lib.launching.launcher import launch

ROUNDS = 10
RANKS = (2, 4)
# from large to small: in another order, caches make neighbours differ more
SIZES = [2**power for power in range(26, 1, -1)]
LIMIT = 0.2  # of the measured time
WAYS = ("gloo", "ring", "star")
COMPARED = [2**6, 2**16, 2**20, 2**26]
_INTRODUCTION = """# All-reduce and the α–β model

`dist.all_reduce` of gloo on ranks of this machine: tensors of 4 B to 64 MiB, from large
to small, 20 times in turn, a barrier before each. The time of a size is the lower
quartile on rank 0. α (for each round of a ring) and β are fitted to every other size by
least squares of relative errors; the sizes between are held back. Gloo cuts a tensor
into two pieces for each rank. Where it has fewer numbers than that, some pieces are
empty and are not sent: these sizes stand alone. Of {} launches: median (smallest to
largest). Errors: largest of all sizes, in % of the measured time.
"""
_FITS = ["ranks", "α, µs", "β, ns per byte", "fitted, %", "held back, %", "within 20 %"]
_BY_SIZE = (
    "By size: seconds measured, and how far the fit of the same launch is from them.\n"
)
_SIZES = ["ranks", "tensor", "", "measured", "error, %"]
_COMPARED = """\
The same sums in three ways, in turn, on new tensors: by gloo; by `isend` and `recv` in
Python as a ring of chunks; by `send` and `recv` with a root that takes and sends whole
tensors. Times of the slowest rank, lower quartile of {} repeats. Ratios to gloo:
measured, and by the fitted α and β, where each rank has a core and a link of its own.
Here the ranks share cores, and the messages of all ranks count.
"""
_WAYS = ["ranks", "tensor", "gloo", "ring", "root", "ring, model", "root, model"]


def time_all_reduce(rank, world_size, *, sizes, rounds=20):
    """Seconds for tensors of each size, the lower quartile of all rounds."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    numbers = torch.zeros(max(sizes) // 4)
    times = torch.zeros(rounds, len(sizes))
    for turn in range(rounds):
        for i, size in enumerate(sizes):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(numbers[: size // 4])
            times[turn, i] = time.perf_counter() - start
    return times.quantile(0.25, dim=0).tolist()


def ring(tensor, rank, world_size):
    """All-reduce by chunks that go round a ring: once added up, once handed on."""
    import torch
    import torch.distributed as dist

    chunks = tensor.tensor_split(world_size)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for turn in range(2 * (world_size - 1)):
        sent = dist.isend(chunks[(rank - turn) % world_size], right)
        chunk = chunks[(left - turn) % world_size]
        if turn < world_size - 1:
            buffer = torch.empty_like(chunk)
            dist.recv(buffer, left)
            chunk += buffer
        else:
            dist.recv(chunk, left)
        sent.wait()


def star(tensor, rank, world_size):
    """All-reduce by one root, which takes and sends whole tensors."""
    import torch
    import torch.distributed as dist

    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    buffer = torch.empty_like(tensor)
    for other in range(1, world_size):
        dist.recv(buffer, other)
        tensor += buffer
    for other in range(1, world_size):
        dist.send(tensor, other)


def time_ways(rank, world_size, *, sizes, rounds=5):
    """Seconds of each way and size in each round but the first; sums are looked at."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    ways = (lambda tensor, *_: dist.all_reduce(tensor)), ring, star
    times = {(name, size): [] for size in sizes for name in WAYS}
    for turn in range(rounds + 1):
        for name, size in times:
            numbers = torch.full((size // 4,), float(rank))
            dist.barrier()
            start = time.perf_counter()
            ways[WAYS.index(name)](numbers, rank, world_size)
            times[name, size].append(time.perf_counter() - start)
            assert numbers.eq(sum(range(world_size))).all(), name
    return {key: row[1:] for key, row in times.items()}


def run(rounds: int | None = None) -> str:
    """Measure all; a report in Markdown comes back."""
    rounds = rounds or ROUNDS
    launch(time_all_reduce, world_size=2, sizes=[4])
    time.sleep(5)  # the fork server imports what it needs later
    times, ways = {n: [] for n in RANKS}, {}
    for turn in range(rounds):
        report.say(f"all_reduce: round {turn + 1}")
        for n in RANKS:
            times[n].append(launch(time_all_reduce, world_size=n, sizes=SIZES)[0])
            ranks = launch(time_ways, world_size=n, sizes=COMPARED)
            for key in ranks[0]:
                slowest = map(max, zip(*(rank[key] for rank in ranks)))
                ways.setdefault((n, *key), []).extend(slowest)
    return describe(times, ways)


def groups(world_size: int) -> dict[str, list[int]]:
    """Sizes to fit, those held back, and those too small to be cut into all pieces."""
    whole = [size for size in SIZES if size >= 8 * world_size]
    names = "fitted", "held back", "too small"
    return dict(zip(names, (whole[::2], whole[1::2], SIZES[len(whole) :])))


def fit_launch(seconds: list[float], world_size: int) -> dict[str, Fit]:
    """α and β of one launch, beside the times of each group of sizes."""
    times = dict(zip(SIZES, seconds))
    points = {
        name: (sizes, [times[size] for size in sizes])
        for name, sizes in groups(world_size).items()
    }
    costs = fit(*points["fitted"], world_size=world_size)
    return {name: costs.against(*point) for name, point in points.items()}


def describe(times: dict, ways: dict) -> str:
    """The report: α and β, their errors by size, the ways."""
    fits = {n: [fit_launch(row, n) for row in rows] for n, rows in times.items()}
    repeats = len(ways[2, "gloo", COMPARED[0]])
    links = {n: [parts["fitted"].link for parts in fits[n]] for n in fits}
    compared = [
        _way_row(n, size, ways=ways, links=links[n]) for n in fits for size in COMPARED
    ]
    parts = [
        _INTRODUCTION.format(len(times[2])),
        report.table(_FITS, [_fit_row(n, rows) for n, rows in fits.items()]),
        _BY_SIZE,
        report.table(_SIZES, [row for n in fits for row in _size_rows(n, fits[n])]),
        _COMPARED.format(repeats),
        report.table(_WAYS, compared),
        report.conditions(),
    ]
    return "\n".join(parts)


def _fit_row(n, fits):
    held = [_worst(parts["held back"]) for parts in fits]
    within = sum(error <= LIMIT for error in held)
    return [
        str(n),
        _spread([1e6 * parts["fitted"].alpha for parts in fits]),
        _spread([1e9 * parts["fitted"].beta for parts in fits]),
        _spread([round(100 * _worst(parts["fitted"])) for parts in fits]),
        _spread([round(100 * error) for error in held]),
        f"{within} of {len(fits)}",
    ]


def _worst(fit):
    return max(map(abs, fit.residuals))


def _size_rows(n, fits):
    """A row for each size, the smallest first."""
    rows = []
    for name, sizes in groups(n).items():
        for i, size in enumerate(sorted(sizes)):
            times = [parts[name].points[i][1] for parts in fits]
            errors = [round(100 * parts[name].residuals[i]) for parts in fits]
            scale, unit = text.unit_of(statistics.median(times))
            measured = f"{_spread([time * scale for time in times])} {unit}"
            rows.append((size, [name, measured, _spread(errors)]))
    return [[str(n), _bytes(size), *cells] for size, cells in sorted(rows)]


def _way_row(n, size, *, ways, links):
    gloo, *others = (_quartile(ways[n, way, size]) for way in WAYS)
    scale, unit = text.unit_of(gloo)
    ratios = [time / gloo for time in others]
    for name in ("chunked ring", "reduce + broadcast"):
        costs = [
            ALGORITHMS[name].seconds(n, size, link=link)
            / ALGORITHMS["chunked ring"].seconds(n, size, link=link)
            for link in links
        ]
        ratios.append(statistics.median(costs))
    words = (f"{ratio:.2f} ×" for ratio in ratios)
    return [str(n), _bytes(size), f"{gloo * scale:.3g} {unit}", *words]


def _quartile(values):
    return statistics.quantiles(values, n=4)[0]


def _bytes(size):
    power = (size.bit_length() - 1) // 10
    return f"{size >> 10 * power} {('B', 'KiB', 'MiB')[power]}"


def _spread(values):
    ends = statistics.median(values), min(values), max(values)
    # three digits, but no powers of ten
    return "{:g} ({:g} to {:g})".format(*(float(f"{value:.3g}") for value in ends))
