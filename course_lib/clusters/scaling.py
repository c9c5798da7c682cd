"""A training step on many GPUs, modelled: computation, all-reduces, what they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

from course_lib.accelerators.alpha_beta import Algorithm, find_algorithm
from course_lib.accelerators.hardware import Link, find_link, parse_size
from course_lib.display import number_table
from course_lib.errors import UsageError
from course_lib.text import duration


@dataclass(frozen=True)
class TrainingStep:
    """One step of a rank: seconds of each part, and the bytes of each bucket of DDP.

    `input` is what the loader needs for a batch, while another one is computed.
    `buckets` leave in this order, each when as many bytes have gradients, or after its
    share of backward in `ready`. A share `drag` of the time of an all-reduce that runs
    during backward is added to backward: it uses what backward needs, cores of a CPU
    most of all.
    """

    forward: float
    backward: float
    buckets: tuple[float, ...]
    optimizer: float = 0.0
    input: float = 0.0
    drag: float = 0.0
    ready: tuple[float, ...] = ()

    def __post_init__(self):
        times = self.forward, self.backward, self.optimizer, self.input
        if not all(0 <= time < math.inf for time in times):
            raise UsageError(
                f"cannot model a step of {times} s: each time is 0 or more seconds."
            )
        if self.ready and len(self.ready) != len(self.buckets):
            raise UsageError(
                f"cannot model {len(self.buckets)} buckets with {len(self.ready)} times"
                " in `ready`: give a share of backward for each bucket, or none."
            )

    @property
    def compute(self) -> float:
        """Return seconds without communication."""
        return self.forward + self.backward + self.optimizer

    def shares(self) -> tuple[float, ...]:
        """Return the share of backward after which each bucket can leave."""
        if self.ready:
            return self.ready
        whole = sum(self.buckets)
        return tuple(part / whole for part in accumulate(self.buckets))


def buckets(bytes: float | str, *, cap: float | str = "25 MiB") -> tuple[int, ...]:
    """Cut gradients of so many bytes as DDP does: a small bucket, then full ones.

    Real buckets end between two tensors. (torch.nn.parallel.DistributedDataParallel,
    bucket_cap_mb)
    """
    rest, cap = parse_size(bytes), parse_size(cap)
    sizes = [min(rest, 2**20)]
    rest -= sizes[0]
    while rest > 0:
        sizes.append(min(rest, cap))
        rest -= cap
    return tuple(sizes)


RING_OR_TREE = "ring or tree"
_WAYS = "chunked ring", "double binary tree"


@dataclass(frozen=True)
class Network:
    """Two levels of links: `inside` a node of some GPUs, and `between` nodes.

    A node has `ports` to the others, by default one for each GPU; its GPUs share them.
    An all-reduce is hierarchical: a ring inside each node leaves each GPU a share of
    the sums; GPUs of equal place reduce their shares over all nodes by `algorithm`;
    the ring goes on inside. "ring or tree" is for each tensor the quicker of a chunked
    ring and a double binary tree, as NCCL compares both since version 2.4
    (NVIDIA/nccl, src/graph/tuning.cc).
    """

    gpus_per_node: int = 8
    inside: Link | str = "NVLink4"
    between: Link | str = "InfiniBand-NDR"
    ports: int | None = None
    algorithm: str | Algorithm = RING_OR_TREE

    def all_reduce(self, bytes: float, *, gpus: int) -> float:
        """Return the seconds for tensors of so many bytes on each of so many GPUs.

        Errors: `UsageError` for GPUs that do not fill their nodes.
        """
        inner, nodes = self.levels(gpus)
        rings = find_algorithm("chunked ring").seconds(inner, bytes, link=self.inside)
        return rings + self.across(max(1, bytes / inner), nodes)

    def across(self, bytes: float, nodes: int) -> float:
        """Return the seconds in which GPUs of equal place reduce over so many nodes.

        Each has so many bytes; those of a node share its ports.
        """
        if nodes == 1:
            return 0.0
        share = self.into_node / self.gpus_per_node
        link = replace(find_link(self.between), bandwidth=share)
        either = self.algorithm == RING_OR_TREE
        ways = map(find_algorithm, _WAYS if either else (self.algorithm,))
        return min(way.seconds(nodes, bytes, link=link) for way in ways)

    @property
    def into_node(self) -> float:
        """Return the bytes/s of all ports of a node, in one direction."""
        ports = self.ports or self.gpus_per_node
        return find_link(self.between).bandwidth * ports

    def levels(self, gpus: int) -> tuple[int, int]:
        """Return how many GPUs a node has, and how many nodes there are.

        Errors: `UsageError` for GPUs that do not fill their nodes.
        """
        size = self.gpus_per_node
        if isinstance(gpus, int) and gpus > 0:
            inner = min(gpus, size)
            if not gpus % inner:
                return inner, gpus // inner
        raise UsageError(
            f"cannot place {gpus!r:.40} GPUs on nodes of {size}: use 1 to {size}, or a"
            f" multiple of {size}."
        )


@dataclass(frozen=True)
class Prediction:
    """A modelled step on `gpus` GPUs: seconds, and where they go.

    `communication` are those of all all-reduces, `exposed` those after backward,
    `waiting` those for input.
    """

    gpus: int
    seconds: float
    compute: float
    communication: float
    exposed: float
    waiting: float

    def __repr__(self):
        seconds, exposed = duration(self.seconds), duration(self.exposed)
        return (
            f"<Prediction {self.gpus:,} GPUs, modelled: {seconds}, {exposed} exposed>"
        )


def predict(step: TrainingStep, gpus: int, network: Network) -> Prediction:
    """Model a step on so many GPUs, all alike and none ever late.

    A bucket leaves when its gradients are ready and the one before it is through. The
    optimizer waits for the last. (Li et al., 2020, PyTorch Distributed: Experiences on
    Accelerating Data Parallel Training)
    """
    times = [network.all_reduce(size, gpus=gpus) for size in step.buckets]
    backward = step.backward + step.drag * _hidden(step, times)
    exposed = _end(times, step.shares(), backward) - backward
    compute = step.compute - step.backward + backward
    busy = compute + exposed
    seconds = max(busy, step.input)
    return Prediction(gpus, seconds, compute, sum(times), exposed, seconds - busy)


def _end(times, shares, backward):
    """When backward and all-reduces are done."""
    end = 0.0
    for seconds, share in zip(times, shares):
        end = max(end, share * backward) + seconds
    return max(end, backward)


def _hidden(step, times):
    """Seconds of all-reduces during backward."""
    return sum(times) - (_end(times, step.shares(), step.backward) - step.backward)


@dataclass(frozen=True)
class ScalingCurve:
    """Predictions for one GPU and for more, with the batch of each GPU or of all fixed.

    `kind` is "weak" or "strong".
    """

    kind: str
    one: Prediction
    predictions: tuple[Prediction, ...]

    @property
    def speedup(self) -> dict[int, float]:
        """Return samples per second in those of one GPU, by GPUs."""
        one, weak = self.one.seconds, self.kind == "weak"
        return {
            at.gpus: one / at.seconds * (at.gpus if weak else 1)
            for at in self.predictions
        }

    @property
    def efficiency(self) -> dict[int, float]:
        """Return the speed-up divided by GPUs, by GPUs."""
        return {gpus: speedup / gpus for gpus, speedup in self.speedup.items()}

    def bill(self, steps: float | Callable, *, price: float = 1.0) -> Bills:
        """Return hours and price of a training, if an hour of a GPU has this `price`.

        It takes so many `steps`, or `steps(gpus)`: larger batches may need fewer.
        """
        hours = {
            at.gpus: at.seconds / 3600 * (steps(at.gpus) if callable(steps) else steps)
            for at in self.predictions
        }
        return Bills({n: (time, time * n * price) for n, time in hours.items()})

    def __repr__(self):
        ends = [f"{share:.0%} on {n:,}" for n, share in self.efficiency.items()]
        return f"<ScalingCurve {self.kind}, modelled: {', '.join(ends[-3:])}>"

    def _repr_html_(self):
        rows = (
            (
                f"{at.gpus:,}",
                duration(at.seconds),
                duration(at.exposed),
                f"{speedup:,.1f}",
            )
            + (f"{speedup / at.gpus:.0%}",)
            for at, speedup in zip(self.predictions, self.speedup.values())
        )
        heads = "step", "exposed", "speed-up", "efficiency"
        return number_table(heads, rows, caption=f"{self.kind} scaling, modelled")


def weak(step: TrainingStep, gpus: Iterable[int], network: Network) -> ScalingCurve:
    """Keep the batch of each GPU: more GPUs, larger batches."""
    rows = tuple(predict(step, count, network) for count in gpus)
    return ScalingCurve("weak", predict(step, 1, network), rows)


def strong(step: TrainingStep, gpus: Iterable[int], network: Network) -> ScalingCurve:
    """Keep the batch of all GPUs: forward, backward and input are shared out.

    Real GPUs lose speed as their batch shrinks; here they do not.
    """
    names = "forward", "backward", "input"
    parts = {n: {name: getattr(step, name) / n for name in names} for n in gpus}
    rows = tuple(predict(replace(step, **parts[n]), n, network) for n in parts)
    return ScalingCurve("strong", predict(step, 1, network), rows)


@dataclass(frozen=True)
class Bills:
    """Hours and price of a training by GPUs: `{gpus: (hours, price)}`, modelled."""

    by_gpus: dict[int, tuple[float, float]]

    @property
    def fastest(self) -> int:
        """Return the GPUs with the fewest hours; of equals the cheapest."""
        return min(self.by_gpus, key=lambda gpus: self.by_gpus[gpus])

    @property
    def cheapest(self) -> int:
        """Return the GPUs with the lowest price; of equals the fastest."""
        return min(self.by_gpus, key=lambda gpus: self.by_gpus[gpus][::-1])

    def _repr_html_(self):
        marks = {self.cheapest: "cheapest"}
        marks[self.fastest] = "fastest"
        rows = (
            (f"{gpus:,}", f"{hours:,.3g}", f"{price:,.0f}", marks.get(gpus, ""))
            for gpus, (hours, price) in self.by_gpus.items()
        )
        caption = "a training by GPUs, modelled"
        return number_table(("hours", "price", ""), rows, caption=caption)


def amdahl(serial: float, n: int) -> float:
    """Return the speed-up on a fixed problem, whose share `serial` one rank does.

    (Amdahl, 1967, Validity of the Single Processor Approach to Achieving Large Scale
    Computing Capabilities)
    """
    return 1 / (serial + (1 - serial) / n)


def gustafson(serial: float, n: int) -> float:
    """Return the speed-up on a problem that grows with n, in equal time.

    `serial` is the share of that time in which one rank works. (Gustafson, 1988,
    Reevaluating Amdahl's Law)
    """
    return n - serial * (n - 1)
