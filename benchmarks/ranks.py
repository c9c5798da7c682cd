"""What every rank does in the benchmark of launching, and how each way starts it."""

import os
import sys

import torch
import torch.distributed as dist

_MARK = "the sum is"


def job(rank: int, world_size: int, store=None) -> float:
    """Join, all-reduce one number, leave; the sum of all ranks comes back."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    x = torch.ones(1) * rank
    dist.all_reduce(x)
    # without this, one rank in fifty aborts when its interpreter ends
    dist.destroy_process_group()
    return x.item()


def spawned(rank: int, world_size: int, queue) -> None:
    """The job under `torch.multiprocessing.spawn`, which passes the rank."""
    queue.put((rank, job(rank, world_size)))


def forked(world_size: int, queue) -> None:
    """The job under `notebook_launcher`, which tells the rank by the environment."""
    rank = int(os.environ["RANK"])
    queue.put((rank, job(rank, world_size)))


def kept(rank: int, link) -> None:
    """Do one job after another, each in a group of its own, until the link ends."""
    port, client = link.recv(), None
    while True:
        try:
            number, world_size = link.recv()
        except EOFError:
            return
        client = client or dist.TCPStore("127.0.0.1", port)
        link.send(job(rank, world_size, dist.PrefixStore(str(number), client)))


def read_sums(output: str) -> list[tuple[int, float]]:
    """The (rank, sum) pairs in what ranks under torchrun printed."""
    lines = [line.split() for line in output.splitlines() if _MARK in line]
    return [(int(words[0]), float(words[-1])) for words in lines]


def main() -> None:
    """Do the job under torchrun, which runs this file as a script."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # one write, so that lines of two ranks cannot mix
    sys.stdout.write(f"{rank} {_MARK} {job(rank, world_size)}\n")


if __name__ == "__main__":
    main()
