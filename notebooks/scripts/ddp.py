"""Train on handwritten digits, on one machine or many; a killed run can go on.

python ddp.py                                       (one process)
python ddp.py --spawn 2                             (this script starts two)
torchrun --nproc-per-node=2 --max-restarts=1 ddp.py
mpirun -np 4 --map-by ppr:2:node python ddp.py      (Intel MPI: -n 4 -ppn 2)
srun --nodes=2 --ntasks-per-node=2 python ddp.py

However many ranks there are, the weights are the same up to rounding (without dropout,
which each rank draws for its own samples). A run that was killed, or that USR1 let save
and stop, ends with the weights of one that was not, bit by bit, if it goes on with as
many ranks. On several machines mpirun and srun need MASTER_ADDR: the host of rank 0.
"""

import argparse
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import time
import zipfile
from datetime import timedelta

import torch
import torch.distributed as dist

# DDP imports this later, and its default arguments would then keep the group alive
import torch.distributed.nn
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
OMPI, TASKS = "OMPI_COMM_WORLD", "SLURM_STEP_TASKS_PER_NODE"
LAUNCHERS = (  # what each calls these; Slurm last, for it may have started mpirun
    NAMES,  # torchrun
    (f"{OMPI}_RANK", f"{OMPI}_LOCAL_RANK", f"{OMPI}_SIZE", f"{OMPI}_LOCAL_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", TASKS),
)


def resolve(env):
    """Return the four numbers of NAMES, or None if no launcher has set them."""
    for names in LAUNCHERS:
        if all(name in env for name in names):
            *numbers, here = (env[name] for name in names)
            if TASKS in names:  # of all nodes: "2(x3),1" is two on three, then one
                pairs = [part.strip(")").partition("(x") for part in here.split(",")]
                counts = [n for n, _, times in pairs for _ in range(int(times or 1))]
                here = counts[int(env["SLURM_NODEID"])]
            return [int(number) for number in (*numbers, here)]
    return None


def join(numbers, wanted=None):
    """Join the process group, by the backend that is wanted; return the device."""
    rank, local_rank, world_size, local_world_size = numbers
    os.environ.update(zip(NAMES, map(str, numbers)))
    if local_world_size < world_size and "MASTER_ADDR" not in os.environ:
        raise SystemExit("several machines: set MASTER_ADDR to the host of rank 0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500" if world_size > 1 else "0")
    gpus, limit = torch.cuda.device_count(), timedelta(minutes=5)
    seen = f"{local_world_size} ranks of this machine see {gpus}"
    if wanted == "nccl" and not own_gpus(numbers):
        raise SystemExit(
            f"--backend=nccl needs a GPU for each rank, but {seen}: start fewer ranks,"
            " or start them by srun --gpus-per-task=1"
        )
    backend = wanted or ("nccl" if own_gpus(numbers) else "gloo")
    if not gpus:
        dist.init_process_group(backend, timeout=limit)
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % gpus)
    torch.cuda.set_device(device)
    if backend == "nccl":
        dist.init_process_group(backend, timeout=limit, device_id=device)
        return device
    if local_rank == 0 and not wanted:
        print(f"too few GPUs for nccl: {seen}, and use gloo", flush=True)
    dist.init_process_group(backend, timeout=limit)
    return device


def own_gpus(numbers):
    """Return whether each rank has a GPU that no other rank uses."""
    _, _, world_size, local_world_size = numbers
    gpus, tasks = torch.cuda.device_count(), os.environ.get("SLURM_STEP_NUM_TASKS")
    # each of srun's own tasks sees only the GPUs of that task
    bound = "SLURM_GPUS_PER_TASK" in os.environ and tasks == str(world_size)
    return gpus > 0 and (bound or local_world_size <= gpus)


def who():
    """Return rank and world size; without a group there is one rank."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def listen():
    """Return a list that grows with each signal USR1, which no longer ends a rank."""
    came = []
    signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])  # spawn() blocks it
    return came


def train(args, device, came):
    """Train from the last checkpoint on; return model, last step, whether stopped."""
    images, labels = load_data(args.data_size, device)
    torch.manual_seed(args.seed)  # the same weights on all ranks
    hidden = nn.Linear(64, 64), nn.ReLU(), nn.Dropout(args.dropout)
    model = nn.Sequential(*hidden, nn.Linear(64, 10)).to(device)
    net = DDP(model) if dist.is_initialized() else model
    settle(net, images[:1])
    torch.manual_seed(args.seed + who()[0])  # each rank draws dropout masks of its own
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=args.decay)
    # all that has a state: a GradScaler or an average of weights would stand here, too
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first, seen = resume(args, parts) if args.checkpoint else (0, 0)
    count = len(images)
    step = first
    while seen < args.epochs * count:  # samples of all ranks, in all epochs
        epoch, start = divmod(seen, count)
        batch = shuffled(count, args.seed + epoch)[start : start + args.batch_size]
        data = images[batch], labels[batch]
        loss = take_step(net, optimizer, data, parts=args.accumulation_steps)
        schedule.step()
        step, seen = step + 1, seen + len(batch)
        asked = report(args, loss, came, step=step, start=first)
        if (step, first) == (args.die_at, 0):
            die(args.die_rank)
        last = seen == args.epochs * count
        if args.checkpoint and (step % args.every == 0 or last or asked):
            saved = save(args, parts, step=step, seen=seen)
            if asked and saved and not last:  # if not saved, the next step tries again
                return net, step, True
    return net, step, False


def settle(net, images):
    """Let DDP order its buckets now, which it does in its second forward.

    With the buckets it orders the sums of gradients, and so their rounding: a run that
    goes on shall add as one without a stop. In eval mode nothing is drawn or learned.
    """
    net.eval()
    for _ in range(2):
        net(images).sum().backward()
    net.train()


@torch.no_grad()
def evaluate(net, device):
    """Return the share of all digits that are right; each rank measures its part."""
    rank, world_size = who()
    images, labels = (part[rank::world_size] for part in load_data(None, device))
    net.eval()
    right = (net(images).argmax(1) == labels).sum().item()
    net.train()
    sums = torch.tensor([right, len(labels)], device=device)
    if dist.is_initialized():
        dist.all_reduce(sums)
    right, count = sums.tolist()
    return right / count


@functools.lru_cache(maxsize=1)
def shuffled(count, seed):
    """Return the order of samples in one epoch, the same on all ranks."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def take_step(net, optimizer, data, *, parts):
    """Take a step with the mean loss of all ranks' batch; return this rank's part."""
    rank, world_size = who()
    share, total = [tensor[rank::world_size] for tensor in data], torch.zeros(1)
    optimizer.zero_grad()
    pieces = zip(*(tensor.tensor_split(parts) for tensor in share))
    for number, (images, labels) in enumerate(pieces, 1):
        quiet = isinstance(net, DDP) and number < parts
        with net.no_sync() if quiet else contextlib.nullcontext():
            loss = nn.functional.cross_entropy(net(images), labels, reduction="sum")
            loss = loss / len(data[0])  # of all ranks: their shares may be unequal
            (loss * world_size).backward()  # DDP divides by the number of ranks
        total += loss.detach().cpu()
    optimizer.step()
    return total.to(images.device)


def report(args, loss, came, *, step, start):
    """Let rank 0 print the loss of a step, and add it to a file of JSON lines.

    Return how many ranks a signal asks to stop, so that all ranks stop or none does.
    """
    if not (args.checkpoint or args.losses or args.verbose):
        return 0  # nobody asks for the loss, and nothing could be saved
    sums = torch.tensor([loss.item(), float(bool(came))], device=loss.device)
    if dist.is_initialized():
        dist.all_reduce(sums)  # one message for both
    loss, asked = sums.tolist()
    row = {"step": step, "loss": loss, "start": start, "time": time.time()}
    if who()[0] == 0 and args.verbose:
        print(f"step {step}: loss {loss:.4f}", flush=True)
    if who()[0] == 0 and args.losses:
        with open(args.losses, "a") as file:
            file.write(json.dumps(row) + "\n")
    return asked


def die(rank):
    """End a rank as if memory ran out, unless torchrun has started it anew."""
    if dist.is_initialized():
        dist.barrier()  # all have reported this step, however busy their cores are
    if who()[0] == rank and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        os.kill(os.getpid(), signal.SIGKILL)


def save(args, parts, *, step, seen):
    """Let rank 0 write a checkpoint whole or not at all; return whether it did."""
    state = {name: part.state_dict() for name, part in parts.items()}
    state |= {"step": step, "seen": seen, "random": random_states()}
    state |= {"seed": args.seed, "data_size": args.data_size, "world_size": who()[1]}
    written = [True]
    if who()[0] == 0:
        try:
            write(state, args.checkpoint)
        except (OSError, RuntimeError) as error:  # torch.save raises both
            print(f"step {step}: not saved, the file before stays: {error}", flush=True)
            written = [False]
    if dist.is_initialized():
        dist.broadcast_object_list(written)  # nobody runs ahead of the file
    return written[0]


def stop(args, step):
    """Let rank 0 say that a signal stopped the run, and hand in the job again."""
    job = os.environ.get("SLURM_JOB_ID")
    if "SLURM_ARRAY_TASK_ID" in os.environ:  # that number may mean all its tasks
        job = "{SLURM_ARRAY_JOB_ID}_{SLURM_ARRAY_TASK_ID}".format(**os.environ)
    if who()[0] == 0:
        print(f"stopped by USR1 after step {step}: start again to go on", flush=True)
        if args.requeue and job:
            subprocess.run(["scontrol", "requeue", job], check=True)
    if dist.is_initialized():
        dist.barrier()  # once one task has ended, srun may end all


def random_states():
    """Return the random states of each rank.

    What else draws belongs here (numpy's as a tensor: torch.load refuses arrays).
    """
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    every = [own]
    if dist.is_initialized():
        every = [None] * who()[1]
        dist.all_gather_object(every, own)
    return every


def draw_on(state, seed):
    """Go on with the random numbers of this rank, or with new ones if ranks changed."""
    rank, world_size = who()
    if state["world_size"] != world_size:
        torch.manual_seed(seed + rank + world_size * state["step"])
        return
    own = state["random"][rank]
    torch.set_rng_state(own["cpu"])
    if "cuda" in own and torch.cuda.is_available():
        torch.cuda.set_rng_state(own["cuda"])


def write(state, path):
    """Write a file under its name when all is on the disk; PATH.1 is the one before."""
    part, folder = f"{path}.part", os.path.dirname(os.path.abspath(path))
    try:
        with open(part, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.replace(path, f"{path}.1")
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):  # gone, if all went well
            os.remove(part)
    names = os.open(folder, os.O_RDONLY)
    os.fsync(names)
    os.close(names)


def load(path):
    """Return the newest checkpoint that is whole, or None."""
    for name in filter(os.path.exists, (path, f"{path}.1")):
        wrong = damage(name)
        if not wrong:
            return torch.load(name, map_location="cpu")
        print(f"{name} is damaged, now {name}.damaged: {wrong}", flush=True)
        os.replace(name, f"{name}.damaged")  # never to become PATH.1
    return None


def damage(path):
    """Say what is wrong with a file of torch.save, which is a zip archive, or None."""
    try:
        wrong = zipfile.ZipFile(path).testzip()  # torch.load compares no checksums
    except (OSError, MemoryError):
        raise  # of this machine, not of the file
    except Exception as error:  # damage shows in many ways
        return error
    return wrong and f"bad checksum of {wrong}"


def resume(args, parts):
    """Take what rank 0 has loaded, on all ranks; return step and samples seen."""
    rank, world_size = who()
    box = [load(args.checkpoint) if rank == 0 else None]
    if dist.is_initialized():
        dist.broadcast_object_list(box)  # other machines may not see its disk
    [state] = box
    if state is None:
        return 0, 0
    for name in ("seed", "data_size"):
        if state[name] != getattr(args, name):
            raise SystemExit(
                f"{args.checkpoint} was made with another {name}: {state[name]}"
            )
    for name, part in parts.items():
        part.load_state_dict(state[name])
    draw_on(state, args.seed)
    if rank == 0:
        ranks = f"ranks then {state['world_size']}, now {world_size}"
        print(f"goes on after step {state['step']} ({ranks})", flush=True)
    return state["step"], state["seen"]


def load_data(size, device):
    """Return images and labels of `size` digits."""
    digits = load_digits()
    images = torch.tensor(digits.data[:size], dtype=torch.float32) / 16
    return images.to(device), torch.tensor(digits.target[:size]).to(device)


def main(arguments=None):
    """Be one rank, or start ranks with --spawn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks")
    parser.add_argument("--data-size", type=int, default=1797)
    parser.add_argument("--accumulation-steps", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--decay", type=float, default=1.0, help="of the rate, a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", metavar="PATH", help="go on from it, save it")
    parser.add_argument("--every", type=int, default=20, help="steps between saves")
    parser.add_argument("--requeue", action="store_true", help="in Slurm after USR1")
    parser.add_argument("--losses", metavar="PATH", help="add a line for each step")
    parser.add_argument("--die-at", type=int, metavar="STEP", help="kill a rank there")
    parser.add_argument("--die-rank", type=int, default=0)
    parser.add_argument("--spawn", type=int, metavar="N", help="start N ranks here")
    parser.add_argument("--distributed", action=argparse.BooleanOptionalAction)
    parser.add_argument("--backend", choices=["nccl", "gloo"], help="insist on it")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args(arguments)
    numbers = resolve(os.environ)
    if not args.spawn:
        run(args, numbers)
        return
    # a terminal inside a job of Slurm is a step with one task, which says it is rank 0
    if numbers and numbers[2] > 1:
        raise SystemExit(
            f"--spawn={args.spawn}, but a launcher has started {numbers[2]} ranks"
            " already: leave out one of them"
        )
    spawn(args)


def spawn(args):
    """Start ranks here, and hand on to them the signal that comes to this process."""
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # ranks make their own
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # ranks inherit that
    ranks = mp.spawn(spawned, args=(args,), nprocs=args.spawn, join=False)

    def hand_on(number, frame):
        for rank in mp.active_children():
            os.kill(rank.pid, number)

    signal.signal(signal.SIGUSR1, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    while not ranks.join():
        pass


def run(args, numbers):
    """Be the rank that these numbers say, from joining the group to leaving it."""
    came = listen()
    torch.set_num_threads(1)  # ranks share the cores
    if numbers is None and args.distributed:
        numbers = [0, 0, 1, 1]  # a group of one
    if args.distributed is False and numbers and numbers[2] > 1:
        raise SystemExit(f"--no-distributed, but there are {numbers[2]} ranks")
    grouped = numbers is not None and args.distributed is not False
    device = join(numbers, args.backend) if grouped else torch.device("cpu")
    net, step, stopped = train(args, device, came)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # also while Python ends
    share = None if stopped else evaluate(net, device)
    if stopped:
        stop(args, step)
    elif who()[0] == 0:
        print(f"step {step}: {share:.1%} of all digits are right")
    del net  # DDP holds the group, too
    if grouped:
        dist.destroy_process_group()


def spawned(rank, args):
    """Be one rank that spawn has started."""
    run(args, [rank, rank, args.spawn, args.spawn])


def free_port():
    """Return a port that no program uses now, as text."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


if __name__ == "__main__":
    main()
