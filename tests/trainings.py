"""A small network, and a few digits, for tests of many trainings at once."""

import torch
from torch import nn

from course_lib import data

CLASSES = 10


def make(seed):
    torch.manual_seed(seed)
    layers = [nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, CLASSES)]
    return nn.Sequential(nn.Flatten(), *layers)


def digits(train=128, validation=100):
    """(train, validation), the first few of each, as TensorDatasets."""
    counts = train, validation
    return tuple(
        torch.utils.data.TensorDataset(*(tensor[:count] for tensor in part.tensors))
        for part, count in zip(data.digits(), counts, strict=True)
    )
