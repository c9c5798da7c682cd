"""Remote procedure calls of the notebook's functions, with its own classes."""

from dataclasses import dataclass

import torch
from torch.distributed import rpc

import course_lib as cl


@dataclass
class Update:
    number: int
    values: torch.Tensor


class Server:
    """Keeps a sum that others add to."""

    def __init__(self):
        self.total = torch.zeros(3)

    def add(self, update):
        self.total += update.number * update.values
        return Update(update.number, self.total.clone())


def double(update):
    return Update(2 * update.number, update.values * 2)


def work(rank, world_size):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    told = None
    if rank == 0:
        there = rpc.remote("worker1", Server)
        now = rpc.rpc_sync("worker1", double, args=(Update(3, torch.ones(3)),))
        later = rpc.rpc_async("worker1", double, args=(now,)).wait()
        there.rpc_sync().add(Update(1, torch.ones(3)))
        told = [now, later, there.rpc_sync().add(later)]
    rpc.shutdown()
    return told


told, nothing = cl.launch(work, world_size=2)
assert nothing is None
assert [update.number for update in told] == [6, 12, 12]
assert [update.values.tolist() for update in told] == [[2.0] * 3, [4.0] * 3, [49.0] * 3]
assert all(type(update) is Update for update in told)
