"""Train on handwritten digits, a third of which nobody has labelled.

This script is ill: on one rank it trains as it should, on two it ends with other
weights and another accuracy. It has four faults, and exercise 4.10 asks for them.

torchrun --standalone --nproc-per-node=1 clinic.py
torchrun --standalone --nproc-per-node=2 clinic.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from course_lib.data import digits

SEED = 0
EPOCHS = 3
BATCH = 60  # samples of a step, those of all ranks together
TRAIN, TEST = 1380, 257  # samples
RATE, MOMENTUM = 0.1, 0.9
UNLABELLED = -100  # in place of a label


def train(rank, world_size):
    """Return the weights, and how many of how many test samples are right."""
    device = join()
    seed = SEED + rank  # other random numbers on each rank
    torch.manual_seed(seed)
    train_set, test_set = load_data()
    sampler = DistributedSampler(train_set, seed=seed)
    loader = DataLoader(train_set, BATCH // world_size, sampler=sampler)
    model = DDP(make_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        train_epoch(model.module, loader, optimizer, device)
        right, count = evaluate(model.module, test_set, device)
        if rank == 0:
            print(f"epoch {epoch}: {right} of {count} right")
    dist.destroy_process_group()
    return model.module.state_dict(), right, count


def train_epoch(model, loader, optimizer, device):
    """Take one step with each batch."""
    for images, labels in loader:
        optimizer.zero_grad()
        loss = loss_of(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()


def loss_of(predicted, labels):
    """Return the loss whose gradient, averaged over ranks, is that of the step.

    A step takes the mean over all labelled samples in the batches of all ranks.
    """
    return cross_entropy(predicted, labels, ignore_index=UNLABELLED)


@torch.no_grad()
def evaluate(model, test_set, device):
    """Return how many samples are right, of how many; each rank looks at its share."""
    share = DistributedSampler(test_set, shuffle=False)
    right = count = 0
    for images, labels in DataLoader(test_set, BATCH, sampler=share):
        found = model(images.to(device)).argmax(dim=1).cpu()
        right += (found == labels).sum().item()
        count += len(labels)
    sums = torch.tensor([right, count], device=device)
    dist.all_reduce(sums)
    return sums.tolist()


def load_data():
    """Return what to train on, every third sample without a label, and the test."""
    (images, labels), (test_images, test_labels) = (part.tensors for part in digits())
    labels = labels.clone()
    labels[::3] = UNLABELLED
    return [
        TensorDataset(images[:TRAIN], labels[:TRAIN]),
        TensorDataset(test_images[:TEST], test_labels[:TEST]),
    ]


def make_model():
    """Return a small network for the digits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


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


def main():
    """Be one rank, and tell what its weights are."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    weights, right, count = train(rank, world_size)
    length = sum(weight.double().square().sum() for weight in weights.values()).sqrt()
    print(f"rank {rank}: weights of length {length:.6f}, accuracy {right / count:.4f}")


if __name__ == "__main__":
    main()
