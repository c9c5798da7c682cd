"""The red thread: one small model on the digits, trained by one plain process.

What several ranks compute is compared with this.
"""

import contextlib

import torch
from torch import nn

from course_lib.data import digits

RATE = 0.1  # learning rate of every exercise


@contextlib.contextmanager
def settled():
    """Set PyTorch's own defaults in a block or a function: f32, CPU, gradients.

    The checks run in the notebook, which may have set others for itself. One thread:
    with small operators several only wait for each other.
    """
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)


def network(seed: int = 0) -> nn.Module:
    """Return a small network for the digits, f32[n, 1, 8, 8] to f32[n, 10]."""
    with seeded(seed):
        return unseeded()


def network_with_norm(seed: int = 0) -> nn.Module:
    """Return the same with a BatchNorm, whose running statistics are buffers."""
    with seeded(seed):
        return unseeded(nn.BatchNorm1d(32))


def unseeded(*middle: nn.Module) -> nn.Module:
    """Return the network with the random numbers that come next."""
    layers = [nn.Linear(64, 32), *middle, nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(nn.Flatten(), *layers)


@contextlib.contextmanager
def seeded(seed: int = 0):
    """Draw random numbers of a seed in a block; the notebook's own state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # and not those of GPUs
        yield


def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first `count` digits of the training part: images and labels."""
    train, _ = digits()
    images, labels = train.tensors
    return images[:count], labels[:count]


def size(model: nn.Module) -> int:
    """Return the bytes of all parameters, which is what their gradients have, too."""
    return sum(p.numel() * p.element_size() for p in model.parameters())


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of every exercise: SGD with rate 0.1."""
    return torch.optim.SGD(model.parameters(), lr=RATE)


def weights_after(batches, *, start: dict) -> dict:
    """Return the weights after one step per batch, a pair of images and labels.

    The loss is the mean cross-entropy.
    """
    model = network()
    model.load_state_dict(start)
    sgd = optimizer(model)
    for images, labels in batches:
        sgd.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        sgd.step()
    return model.state_dict()


def batches(data, *, batch: int, epochs: int):
    """Yield the batches of a training as DistributedSampler orders them by its seed.

    Those of all ranks together. https://docs.pytorch.org/docs/stable/data.html
    """
    images, labels = data
    for epoch in range(epochs):
        order = torch.Generator().manual_seed(epoch)
        for part in torch.randperm(len(images), generator=order).split(batch):
            yield images[part], labels[part]
