"""Train a network on handwritten digits: one process per GPU, or two on the CPU.

torchrun --standalone --nproc-per-node=2 train.py    (torchrun starts the ranks)
python train.py                                      (this script starts them)
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist

# DDP imports this later, and its default arguments would then keep the group alive
import torch.distributed.nn
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, world_size, save=None):
    """Run one rank; rank 0 tells how it goes and writes the file `save`."""
    device = join()
    train_set, test_set = load_data()
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=64 // world_size, sampler=sampler)
    seed = 0
    torch.manual_seed(seed)  # the same weights on all ranks
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = DDP(model.to(device))
    torch.manual_seed(seed + rank)  # other draws on each: dropout, loader's workers
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            nn.functional.cross_entropy(predicted, labels.to(device)).backward()
            optimizer.step()
        loss, accuracy = evaluate(model, test_set, device)
        if rank == 0:
            print(f"epoch {epoch}: test loss {loss:.3f}, accuracy {accuracy:.1%}")
    if rank == 0 and save:
        torch.save(model.module.state_dict(), save)
    dist.barrier()  # rank 0 may still be saving
    del model  # it holds the group, too
    dist.destroy_process_group()


def join():
    """Join the process group and return the device of this rank."""
    local_rank = int(os.environ["LOCAL_RANK"])  # its number on its machine
    gpus = torch.cuda.device_count()
    if not gpus:
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % gpus)
    torch.cuda.set_device(device)
    if int(os.environ["LOCAL_WORLD_SIZE"]) <= gpus:
        dist.init_process_group("nccl", device_id=device)
    else:  # nccl refuses ranks that share a GPU
        dist.init_process_group("gloo")
    return device


def load_data():
    """Return 1,536 digits to train on and 261 to test."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    parts = slice(261, None), slice(0, 261)
    return [TensorDataset(images[part], labels[part]) for part in parts]


@torch.no_grad()
def evaluate(model, test_set, device):
    """Return mean loss and accuracy; each rank measures its share of the samples."""
    own = slice(dist.get_rank(), None, dist.get_world_size())  # without padding
    images, labels = (part[own].to(device) for part in test_set.tensors)
    model.eval()  # no dropout, and BatchNorm's running statistics
    predicted = model(images)  # all ranks: DDP sends the statistics of rank 0 first
    model.train()
    loss = nn.functional.cross_entropy(predicted, labels, reduction="sum").item()
    right = (predicted.argmax(1) == labels).sum().item()
    sums = torch.tensor([loss, right, len(labels)], device=device)
    dist.all_reduce(sums)
    loss, right, count = sums.tolist()
    return loss / count, right / count


def main():
    """Be one rank under torchrun; else start all ranks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--save", metavar="PATH", help="write the weights to PATH")
    parser.add_argument("--world-size", type=int, help="ranks, if not by torchrun")
    args = parser.parse_args()
    if "RANK" in os.environ:  # torchrun has set it
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        train(rank, world_size, args.save)
    else:
        world_size = args.world_size or torch.cuda.device_count() or 2
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        mp.spawn(spawned, args=(world_size, args.save), nprocs=world_size)


def spawned(rank, world_size, save):
    """Be one rank that spawn has started: set what torchrun would set, then train."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world_size))
    torch.set_num_threads(1)  # as torchrun's OMP_NUM_THREADS=1: ranks share the cores
    train(rank, world_size, save)


def free_port():
    """Return a port that no program uses now, as text."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


if __name__ == "__main__":
    main()
