"""The ways of launching that are compared; each returns the sums, rank by rank."""

import multiprocessing
import os
import socket
import subprocess
import sys

from benchmarks import ranks


def ready(way: str, most: int):
    """The function of `world_size` that launches up to `most` ranks in this way."""
    return Pool(most).run if way == "kept" else _WAYS[way]


def tidy(way: str) -> None:
    """Put away what a launch left, outside the time."""
    if way == "cold":
        from course_lib.launching import client

        running, client._current = client.current_server(), None
        running.close()
        # what it would import while idle must not disturb the next launch
        running.process.wait()


def ours(world_size: int) -> list[float]:
    """Launch by `course_lib.launch`; without a running server it starts one."""
    from course_lib.launching.launcher import launch

    return list(launch(ranks.job, world_size=world_size))


def spawn(world_size: int) -> list[float]:
    """Launch by `torch.multiprocessing.spawn`."""
    import torch.multiprocessing as mp

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=_free_port())
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(ranks.spawned, (world_size, queue), nprocs=world_size)
    return _in_order(queue.get() for _ in range(world_size))


def torchrun(world_size: int) -> list[float]:
    """Launch a script by `torchrun --standalone`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc_per_node={world_size}", ranks.__file__]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return _in_order(ranks.read_sums(done.stdout))


def notebook(world_size: int) -> list[float]:
    """Launch by accelerate's `notebook_launcher`, which forks this process."""
    from accelerate import notebook_launcher

    queue = multiprocessing.get_context("fork").SimpleQueue()
    options = {"num_processes": world_size, "use_port": _free_port()}
    notebook_launcher(ranks.forked, (world_size, queue), **options)
    return _in_order(queue.get() for _ in range(world_size))


class Pool:
    """Workers that are kept and used again: the limit of what can be reached."""

    def __init__(self, most: int):
        context = multiprocessing.get_context("fork")
        self.links, self.number = [], 0
        for rank in range(most):
            link, theirs = context.Pipe()
            context.Process(target=ranks.kept, args=(rank, theirs), daemon=True).start()
            self.links.append(link)
        self._serve_store()

    def _serve_store(self):
        from torch.distributed import TCPStore

        # after the forks, because the store has a thread
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        for link in self.links:
            link.send(self.store.port)

    def run(self, world_size: int) -> list[float]:
        """Give the job to the first `world_size` workers."""
        self.number += 1
        for link in self.links[:world_size]:
            link.send((self.number, world_size))
        return [link.recv() for link in self.links[:world_size]]


_WAYS = {
    "warm": ours,
    "cold": ours,
    "notebook": notebook,
    "spawn": spawn,
    "torchrun": torchrun,
}


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def _in_order(pairs):
    return [value for _, value in sorted(pairs)]
