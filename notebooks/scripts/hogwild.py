"""Train a network on handwritten digits by several processes without a lock.

python hogwild.py --processes=2

After F. Niu, B. Recht, C. Re, S. Wright, "Hogwild!: A Lock-Free Approach to
Parallelizing Stochastic Gradient Descent", 2011.
"""

import argparse
import time

import torch
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn


def work(number, shared, updates):
    """Take one process's share of the updates, each on the shared weights."""
    torch.set_num_threads(1)  # the processes share the cores
    model, done = shared
    images, labels = load_data()[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    order = torch.Generator().manual_seed(number)  # other batches in each process
    for _ in range(number, updates, len(done)):
        batch = torch.randint(len(images), (8,), generator=order)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        done[number] += 1  # nobody else writes this number, so none is lost


def train(processes, updates):
    """Train with spawned processes; return the model and the updates of each."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model.share_memory()
    done = torch.zeros(processes, dtype=torch.int64).share_memory_()
    mp.spawn(work, args=((model, done), updates), nprocs=processes)
    return model, done


def load_data():
    """Return images and labels of 1,536 digits to train on, and of 261 to test."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = order[261:], order[:261]
    return [(images[part], labels[part]) for part in parts]


@torch.no_grad()
def accuracy(model, data):
    """Return the share of digits that the model names correctly."""
    images, labels = data
    model.eval()  # no dropout, and BatchNorm's running statistics
    return (model(images).argmax(1) == labels).float().mean().item()


def main():
    """Train, then print who did how much and how good the model is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3000, help="of all together")
    parser.add_argument("--save", metavar="PATH", help="write the weights to PATH")
    args = parser.parse_args()
    start = time.perf_counter()
    model, done = train(args.processes, args.updates)
    seconds = time.perf_counter() - start
    for number, updates in enumerate(done.tolist()):
        print(f"process {number}: {updates} updates")
    test = accuracy(model, load_data()[1])
    print(f"test accuracy {test:.1%}, {seconds:.1f} s with starting the processes")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
