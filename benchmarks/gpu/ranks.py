"""Ranks on GPUs: starts, nccl, two ranks that share one GPU, and each way to fail."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import course_lib as cl
from benchmarks.gpu import sharing
from benchmarks.gpu.keeping import Findings, seconds
from benchmarks.gpu.machine import ask_doctor


def main(out: str) -> int:
    """Run all cases; each is kept with its time and what is left on the GPU."""
    findings = Findings(out, "ranks")
    if "doctor" not in findings.all.get("machine", {}):
        ask_doctor(findings)  # it was cut off at its limit
    if not torch.cuda.device_count():
        print("no GPU here")
        for name, fn, ranks, options in CASES[:2]:  # a rehearsal of the way it goes
            case(findings, name, fn, ranks, **options)
        return 0
    count = torch.cuda.device_count()
    for name, fn, ranks, options in CASES + (of_several(count) if count > 1 else []):
        with findings.attempt(name):
            case(findings, name, fn, ranks, **options)
    if count < 2:
        print("one GPU here: what needs two was not run")
    findings.keep("caller started CUDA", torch.cuda.is_initialized())
    return 0


def case(findings, name, fn, ranks, /, *, environ=(), interrupt=None, **options):
    """One launch: its value or its error, its seconds, what it left."""
    os.environ.update(environ)
    if interrupt:
        # as the kernel is interrupted: the main thread gets a signal
        threading.Timer(interrupt, os.kill, (os.getpid(), signal.SIGINT)).start()

    def run():
        try:
            results = cl.launch(fn, world_size=ranks, **options)
        except KeyboardInterrupt as error:  # LaunchInterrupted is one, too
            return {"error": f"{type(error).__name__}: {error}"}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        found = {"value": list(results), "output": "\n".join(results.output)[-6000:]}
        if results.trace:
            found["trace"] = [vars_of(event) for event in results.trace.events]
            found["source"] = results.trace.source
        found["meter"] = str(results.meter)
        return found

    spent, found = seconds(run)
    for variable in environ:
        del os.environ[variable]
    findings.keep(name, {"seconds": round(spent, 3), **found, "left": left()})


def vars_of(event):
    """An event as plain data."""
    names = ("rank", "kind", "name", "start", "stop", "bytes")
    return {name: getattr(event, name, None) for name in names}


def left() -> dict:
    """Processes on the GPU, and its memory, as soon as the launch is over."""
    query = ("--query-compute-apps=pid,used_memory", "--query-gpu=memory.used")
    texts = []
    for one in query:
        command = ["nvidia-smi", one, "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
            texts.append(done.stdout.strip())
        except OSError:
            texts.append("")
    return dict(zip(("processes", "memory"), texts))


def plain(rank, world_size):
    """No GPU at all."""
    return os.getpid() > 0


def nccl(rank, world_size):
    """A group, an all-reduce; the seconds of each."""
    times, start = {}, time.perf_counter()

    def lap(name):
        nonlocal start
        torch.cuda.synchronize()
        times[name], start = time.perf_counter() - start, time.perf_counter()

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    ones = torch.ones(4, device=device)
    lap("context")
    dist.init_process_group("nccl", device_id=device)
    lap("init_process_group")
    dist.all_reduce(ones)
    lap("first all-reduce")
    dist.all_reduce(ones)
    lap("second all-reduce")
    dist.barrier()
    dist.destroy_process_group()
    lap("destroy")
    return times, ones.tolist()


def on_cuda(rank, world_size):
    """A CUDA tensor comes back; how much of the GPU a bare rank holds."""
    held = torch.ones(3, device="cuda") * rank
    free, total = torch.cuda.mem_get_info()
    return held, total - free


def network():
    """Some 17 MB of weights."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2048, 10))


def trained(rank, world_size, backend):
    """Five steps of DDP; the weights' sum. With gloo all ranks share one GPU."""
    device = sharing.join(rank, backend)
    model = DDP(network().to(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        x = torch.randn(256, 64, device=device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    total = sum(p.double().sum().item() for p in model.parameters())
    dist.destroy_process_group()
    return total


def recorded(rank, world_size, backend):
    """What nccl's flight recorder keeps of a training."""
    trained(rank, world_size, backend)
    kept = torch._C._distributed_c10d._dump_nccl_trace_json(True, False)
    return bytes(kept).decode()


def one_collective(rank, world_size, name):
    """What gloo does with tensors of one GPU."""
    dist.init_process_group("gloo")
    ones = torch.ones(4, device="cuda") * (rank + 1)
    if name == "all_reduce":
        dist.all_reduce(ones)
    elif name == "broadcast":
        dist.broadcast(ones, 0)
    elif name == "all_gather":
        parts = [torch.empty_like(ones) for _ in range(world_size)]
        dist.all_gather(parts, ones)
        return torch.cat(parts).tolist()
    elif name == "reduce_scatter":
        own = torch.empty(2, device="cuda")
        dist.reduce_scatter_tensor(own, ones)
        return own.tolist()
    elif name == "all_to_all":
        own = torch.empty(4, device="cuda")
        dist.all_to_all_single(own, ones)
        return own.tolist()
    elif name == "all_to_all of a list":
        parts = [torch.empty(2, device="cuda") for _ in range(world_size)]
        dist.all_to_all(parts, list(ones.chunk(world_size)))
        return torch.cat(parts).tolist()
    elif name == "isend and irecv":
        own = torch.empty(4, device="cuda")
        swap = [(dist.isend, ones), (dist.irecv, own)]
        swap = [dist.P2POp(call, tensor, 1 - rank) for call, tensor in swap]
        for work in dist.batch_isend_irecv(swap):
            work.wait()
        return own.tolist()
    elif name == "send":
        (dist.send if rank == 0 else dist.recv)(ones, 1 - rank)
    elif name == "barrier":
        dist.barrier()
    return ones.tolist()


def between_gpus(rank, world_size, name):
    """What nccl does between two GPUs, with sizes that match or do not."""
    device, limit = torch.device("cuda", rank), timedelta(seconds=10)
    sharing.join(rank, "nccl", device_id=device, timeout=limit)
    ones = torch.ones(4 + 2 * (rank and name == "unlike sizes"), device=device)
    if name == "send":
        (dist.send if rank == 0 else dist.recv)(ones, 1 - rank)
    elif name == "all_to_all":
        own = torch.empty(4, device=device)
        dist.all_to_all_single(own, ones)
        ones = own
    elif name == "one raises" and rank == 1:
        raise ValueError("no such file")
    elif name == "one is elsewhere" and rank == 1:
        dist.recv(ones, 0)
    else:
        dist.all_reduce(ones)
    torch.cuda.synchronize()
    return ones.tolist()


def two_on_one(rank, world_size):
    """nccl refuses two ranks on one GPU: in which words?"""
    ones = torch.ones(1, device=sharing.join(0, "nccl"))
    dist.all_reduce(ones)
    return ones.item()


def raises(rank, world_size):
    """An error of Python beside CUDA."""
    torch.ones(1, device="cuda")
    raise ValueError("no such file")


def raises_beside(rank, world_size):
    """The other one waits in an all-reduce of CUDA tensors."""
    dist.init_process_group("gloo")
    ones = torch.ones(1, device="cuda")
    if rank == 1:
        raise ValueError("no such file")
    dist.all_reduce(ones)


def hangs(rank, world_size):
    """A collective that one rank never calls."""
    dist.init_process_group("gloo")
    ones = torch.ones(1, device="cuda")
    if rank == 0:
        dist.all_reduce(ones)
    else:
        dist.recv(ones, 0)


def sleeps(rank, world_size):
    """A kernel that takes long."""
    torch.cuda._sleep(200_000_000_000)
    torch.cuda.synchronize()


def dies(rank, world_size):
    """Killed with memory on the GPU."""
    held = torch.ones(2**28, device="cuda")
    os.kill(os.getpid(), signal.SIGKILL)
    return held


def too_large(rank, world_size):
    """More than the GPU has."""
    layers = [torch.ones(2**30, device="cuda")]
    for _ in range(400):
        layers.append(torch.ones(2**30, device="cuda"))


def limited(rank, world_size):
    """More than a process may take."""
    torch.cuda.set_per_process_memory_fraction(0.01)
    kept = [torch.ones(2**26, device="cuda") for _ in range(100)]
    return len(kept)


def asserts(rank, world_size):
    """An index that is out of range, noticed by the GPU."""
    table = torch.ones(4, 2, device="cuda")
    rows = nn.functional.embedding(torch.tensor([9], device="cuda"), table)
    return rows.sum().item()


def mixed(rank, world_size):
    """Two devices in one operator."""
    return (torch.ones(2, device="cuda") + torch.ones(2)).sum().item()


def missing_gpu(rank, world_size):
    """The second node's mistake: the global rank as an index."""
    return torch.ones(1, device=f"cuda:{rank + 1}").item()


def watched(rank, world_size):
    """nccl's watchdog: the GPU is busy for longer than the group's limit."""
    device = sharing.join(0, "nccl", timeout=timedelta(seconds=3))
    ones = torch.ones(2**20, device=device)
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    torch.cuda._sleep(30_000_000_000)
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    return ones[0].item()


def waits(rank, world_size):
    """To be interrupted, in CUDA's own wait."""
    torch.cuda._sleep(60_000_000_000)
    torch.cuda.synchronize()


_COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
_COLLECTIVES += ("all_to_all of a list", "isend and irecv", "send", "barrier")
DEBUG = {"NCCL_DEBUG": "INFO"}
RECORDER = {"TORCH_FR_BUFFER_SIZE": "100", "TORCH_NCCL_TRACE_BUFFER_SIZE": "100"}
CASES = [
    ("first launch, no CUDA", plain, 1, {}),
    ("warm launch, no CUDA", plain, 1, {}),
    ("nccl, first", nccl, 1, {}),
    ("nccl, second", nccl, 1, {}),
    ("nccl, third", nccl, 1, {}),
    ("nccl, NCCL_DEBUG=INFO", nccl, 1, {"environ": DEBUG}),
    ("a CUDA tensor returned", on_cuda, 1, {}),
    ("DDP on nccl, traced", trained, 1, {"trace": True, "backend": "nccl"}),
    (
        "nccl's flight recorder",
        recorded,
        1,
        {"environ": RECORDER, "backend": "nccl"},
    ),
    ("DDP on gloo, two ranks share a GPU", trained, 2, {"backend": "gloo"}),
    ("the same, traced", trained, 2, {"backend": "gloo", "trace": True}),
    *(
        (
            f"gloo, CUDA tensors, {name}",
            one_collective,
            2,
            {"name": name, "timeout": 30},
        )
        for name in _COLLECTIVES
    ),
    *sharing.cases(),
    ("nccl, two ranks on one GPU", two_on_one, 2, {"timeout": 30}),
    ("raises", raises, 1, {}),
    ("raises beside a waiting rank", raises_beside, 2, {"timeout": 30}),
    ("hangs", hangs, 2, {"timeout": 30}),
    ("a long kernel", sleeps, 1, {"timeout": 4}),
    ("dies", dies, 1, {}),
    ("out of memory", too_large, 1, {}),
    ("out of a fraction", limited, 1, {}),
    ("device-side assert", asserts, 1, {}),
    ("two devices", mixed, 1, {}),
    ("a GPU that is not there", missing_gpu, 1, {}),
    ("interrupted", waits, 1, {"interrupt": 3.0}),
    ("nccl's watchdog", watched, 1, {"timeout": 40}),
    ("a launch after all that", nccl, 1, {}),
]
_BETWEEN = ("all_reduce", "all_to_all", "send", "unlike sizes", "one raises")
_BETWEEN += ("one is elsewhere",)


def of_several(count: int) -> list:
    """The cases that need two GPUs or more."""
    return [
        (f"nccl on {count} GPUs", nccl, count, {}),
        (f"nccl on {count} GPUs, NCCL_DEBUG=INFO", nccl, count, {"environ": DEBUG}),
        (f"DDP on {count} GPUs", trained, count, {"trace": True, "backend": "nccl"}),
        (f"DDP, two ranks on each of {count}", trained, 2 * count, {"backend": "gloo"}),
        *(
            (f"two GPUs: {name}", between_gpus, 2, {"name": name, "timeout": 30})
            for name in _BETWEEN
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
