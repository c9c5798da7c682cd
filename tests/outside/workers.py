"""Processes that a rank starts find the notebook's classes and functions."""

import io
import multiprocessing
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import course_lib as cl

with open("executed", "a") as file:
    file.write("x")
started = [0]


@dataclass
class Stat:
    rank: int
    samples: list


class Squares(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return square(index)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)


def square(number):
    started[0] += 1
    return number * number


def load(rank, world_size, method):
    dist.init_process_group("gloo")
    data = Squares()
    loader = DataLoader(
        data,
        batch_size=4,
        sampler=DistributedSampler(data, shuffle=False),
        num_workers=1,
        multiprocessing_context=method,
    )
    mine = Stat(rank, torch.cat(list(loader)).tolist())
    with multiprocessing.get_context(method).Pool(1) as pool:
        powers = pool.map(square, mine.samples[:3])
    stats = [None] * world_size
    dist.all_gather_object(stats, mine)
    return stats, powers, started[0]


def keep(rank, world_size):
    file, net = io.BytesIO(), Net()
    torch.save(net, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    return type(again) is Net, again.layer.weight.equal(net.layer.weight)


# a process that starts afresh imports PyTorch: of these there are few
for method, world_size in (("fork", 2), ("spawn", 1), ("forkserver", 1)):
    results = cl.launch(load, method, world_size=world_size)
    for rank, (stats, powers, count) in enumerate(results):
        assert [type(stat) for stat in stats] == [Stat] * world_size
        samples = [number for stat in stats for number in stat.samples]
        assert sorted(samples) == [n * n for n in range(16)]
        assert powers == [n * n for n in stats[rank].samples[:3]]
        assert count == 0  # what its processes do to a global is theirs
assert list(cl.launch(keep, world_size=1)) == [(True, True)]
with open("executed") as file:
    assert file.read() == "x"  # no cell has run again
