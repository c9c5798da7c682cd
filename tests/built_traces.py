"""What a profiler would tell of several GPUs: BUILT by its schema, not recorded.

Nothing has run on several GPUs yet: put recorded rows in the place of these after the
first run on them. Fields are those of kineto, libkineto/src/CuptiActivity.h, and of one
H100 (benchmarks/gpu/recorded); names of kernels those that src/device/generate.py of
NCCL makes. Times are made up. https://github.com/pytorch/kineto
"""

from dataclasses import dataclass
from itertools import count

from torch.autograd import DeviceType

from course_lib.tracing import profiler
from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.merge import merge_ranks
from course_lib.tracing.profiler import Span

BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
US = 1_000  # ns


# --- one process drives several GPUs: rows of a Chrome trace, times in µs


class _Rows(list):
    """Rows, each kernel and copy behind the call that launched it."""

    def __init__(self):
        self._numbers = count(4_547)

    def note(self, name, start, length):
        self.append(_row("user_annotation", name, start, length, {"External id": 1}))

    def kernel(self, name, gpu, launch, start, length=20):
        args = {"queued": 0, "device": gpu, "context": 1 + gpu, "grid": [8, 32, 1]}
        self._launched("kernel", name, launch, (start, length), args)

    def within(self, gpu, launch, start, size):
        args = {"device": gpu, "context": 1 + gpu, "bytes": size}
        name = "Memcpy DtoD (Device -> Device)"
        self._launched("gpu_memcpy", name, launch, (start, 3), args)

    def between(self, source, target, launch, start, size):
        # no "device": kineto writes these six in its place
        ends = {"from": source, "in": source, "to": target}
        args = {f"{way}Device": gpu for way, gpu in ends.items()}
        args |= {f"{way}Context": 1 + gpu for way, gpu in ends.items()}
        name = "Memcpy PtoP (Device -> Device)"
        args |= {"bytes": size, "memory bandwidth (GB/s)": 20.0}
        self._launched("gpu_memcpy", name, launch, (start, 5), args)

    def _launched(self, category, name, launch, times, args):
        number = next(self._numbers)
        call = {"External id": 1029, "cbid": 211, "correlation": number}
        self.append(_row("cuda_runtime", "cudaLaunchKernel", launch, 5, call))
        args = {"External id": 1029, "stream": 7, "correlation": number} | args
        self.append(_row(category, name, *times, args))


def _row(category, name, start, length, args):
    pid = args.get("device", args.get("inDevice", 5351))
    row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": 7}
    return row | {"ts": start, "dur": length, "args": args}


def data_parallel(gpus=2, *, images=4096, outputs=640):
    """One forward and backward of `nn.DataParallel`; bytes are those of one part."""
    rows = _Rows()
    rows.append({"ph": "M", "name": "process_name", "args": {"name": "python3"}})
    rows.note("course_lib: forward", 100, 300)
    rows.note("course_lib: backward", 500, 300)
    others = range(1, gpus)
    for gpu in range(gpus):
        rows.kernel(BROADCAST, gpu, 120, 1000, 40)
    for gpu in others:
        rows.between(0, gpu, 150, 1050 + 6 * gpu, images)
    for gpu in range(gpus):
        rows.kernel("ampere_sgemm_32x128_tn", gpu, 200 + 20 * gpu, 1100 + 30 * gpu)
    rows.within(0, 340, 1390, outputs)
    for gpu in others:
        rows.between(gpu, 0, 350, 1400 + 6 * gpu, outputs)
    for gpu in others:
        rows.between(0, gpu, 520, 1500 + 6 * gpu, outputs)
    for gpu in range(gpus):
        rows.kernel("ampere_sgemm_128x64_nn", gpu, 600, 1600, 60)
        rows.kernel(REDUCE, gpu, 700, 1700, 40)
    return list(rows)


# --- ranks with a GPU each: kineto's events as PyTorch hands them out, times in ns


@dataclass(frozen=True)
class Raw:
    """One event with the methods of `torch._C._profiler._KinetoEvent`."""

    text: str
    start: int
    length: int
    number: int = 0  # of an operator, or of a call of CUDA: two counts
    linked: int = 0  # the operator that launched a kernel
    place: int = 1  # a thread of the host, or a stream
    gpu: bool = False
    annotation: bool = False

    def name(self):
        return self.text

    def start_ns(self):
        return self.start

    def duration_ns(self):
        return self.length

    def start_thread_id(self):
        return self.place

    def device_resource_id(self):
        return self.place

    def device_type(self):
        return DeviceType.CUDA if self.gpu else DeviceType.CPU

    def correlation_id(self):
        return self.number

    def linked_correlation_id(self):
        return self.linked

    def is_user_annotation(self):
        return self.annotation


class _Rank:
    """What a rank records, operator by operator."""

    def __init__(self):
        self.events, self.calls, self.spans = [], [], []
        # each operator has others inside, so their numbers outrun those of calls
        self._numbers, self._runtime = count(1, 5), count(1)

    def launch(self, name, kernel, start, run, *, thread=1, stream=7):
        """An operator of 10 µs, its call of CUDA, and its kernel; times in µs."""
        start, (at, length) = int(start * US), (int(time * US) for time in run)
        number = next(self._numbers)
        self.events += [
            Raw(name, start, 10 * US, number, place=thread),
            # these are counted apart, so that a number comes twice
            Raw("cudaLaunchKernel", start + 5 * US, 2 * US, next(self._runtime)),
            Raw("cudaEventQuery", start + 8 * US, 1 * US, next(self._runtime)),
            Raw(kernel, at, length, linked=number, place=stream, gpu=True),
        ]

    def collective(self, name, kernel, start, run, size):
        """A collective of nccl, called at `start` µs."""
        self.launch(f"c10d::{name}", kernel, start, run, thread=2, stream=20)
        number, word = 1 + len(self.calls), profiler.collective_name(f"c10d::{name}")
        at = {"start": int((start + 1) * US), "bytes": size, "backend": "nccl"}
        self.calls.append(Call("0", number, word, "", True, **at))

    def phase(self, name, start, stop):
        self.spans.append(Span(name, int(start * US), int(stop * US)))

    def optimizer(self, start):
        name = "Optimizer.step#SGD.step"
        self.events.append(Raw(name, int(start * US), 30 * US, annotation=True))
        add = "multi_tensor_apply_kernel"
        self.launch("aten::_foreach_add_", add, start + 5, (start + 400, 20))

    def marks(self):
        events = sorted(self.events, key=lambda event: (event.gpu, event.start))
        ops = list(profiler.read_ops(events, cuda=True))
        spans = self.spans + profiler.noted_phases(op for op in ops if op.note)
        sent = profiler.communication(ops, self.calls, [])
        return profiler.segments(ops, spans) + sent


def ddp(steps, reduces, *, ranks=2, broadcasts=1, optimizer=True):
    """The trace of a training with DDP: so many all-reduces of 1 MB in each backward.

    The last rank is 20 µs late. A single rank launches nothing for its collectives, as
    was recorded on one H100.
    """
    recorded = {rank: _Rank() for rank in range(ranks)}
    for number, rank in recorded.items():
        for i in range(broadcasts if ranks > 1 else 0):
            run = 50 + 60 * i, 40
            rank.collective("broadcast_", BROADCAST, 10 + 60 * i, run, 19_240)
        for step in range(steps):
            at = 1_000 + 2_000 * step + 20 * (number == ranks - 1)
            _step(rank, at, reduces if ranks > 1 else 0, optimizer=optimizer)
    source = f"measured: {ranks} ranks, nccl"
    return merge_ranks(
        {number: rank.marks() for number, rank in recorded.items()}, source
    )


def _step(rank, at, reduces, *, optimizer):
    rank.phase("forward", at, at + 100)
    rank.launch("aten::linear", "ampere_sgemm_32x128_tn", at + 20, (at + 300, 200))
    rank.phase("backward", at + 110, at + 500)
    name = "autograd::engine::evaluate_function: AddmmBackward0"
    for i in range(2):
        run = at + 500 + 300 * i, 300
        rank.launch(name, "ampere_sgemm_128x64_nn", at + 120 + 80 * i, run, thread=2)
    for i in range(reduces):
        run = at + 820 + 100 * i, 90
        rank.collective("allreduce_", ALL_REDUCE, at + 290 + 20 * i, run, 1_000_000)
    if optimizer:
        rank.optimizer(at + 1_000)
