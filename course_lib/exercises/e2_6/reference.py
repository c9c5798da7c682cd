"""Exercise 2.6: the training that an answer is compared with, float16 by hand.

Numbers of 16 bits are rounded ones of 32: forward, and in backward, where what is too
large becomes inf. Products are added up in float32 and rounded once, as GPUs do. So no
device is needed, and an answer has no part in it.
"""

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import conv2d, linear, log_softmax, nll_loss


@dataclass(frozen=True)
class Batch:
    """What becomes of one batch: its mean `loss`, and the `scale` it is trained at.

    `before` are the weights that it meets.
    `parts` are the unscaled gradients of its micro-batches, by the names of parameters;
    `norm` is that of their sum, not finite where the step is left out.
    """

    loss: float
    scale: float
    parts: list
    norm: float
    before: dict

    @property
    def skipped(self) -> bool:
        """Whether float16 overflows."""
        return not math.isfinite(self.norm)

    def gradient(self) -> dict:
        """Return the sum over micro-batches, before it is clipped."""
        return {name: sum(part[name] for part in self.parts) for name in self.parts[0]}


@dataclass(frozen=True)
class Training:
    """All batches, and what is there after the last."""

    batches: list
    weights: dict
    scale: float

    @property
    def skipped(self) -> list[int]:
        """The numbers of the batches without a step."""
        return [number for number, batch in enumerate(self.batches) if batch.skipped]


def trained(given: dict) -> Training:
    """Return what a right training gives: one step per batch, clipped."""
    model = copy.deepcopy(given["model"])
    optimizer, settings = given["optimizer"](model.parameters()), given["scaler"]
    scale, good, batches = settings["init_scale"], 0, []
    for images, labels in given["batches"]:
        pairs = zip(images.chunk(given["parts"]), labels.chunk(given["parts"]))
        batch = _summed(model, list(pairs), scale)
        batches.append(batch)
        if batch.skipped:
            scale, good = scale * settings["backoff_factor"], 0
            continue
        for name, grad in batch.gradient().items():
            # as PyTorch does, so that a norm of 0 is nothing to divide by
            grad = grad * min(1.0, given["max_norm"] / (batch.norm + 1e-6))
            model.get_parameter(name).grad = grad
        optimizer.step()
        good += 1
        if good == settings["growth_interval"]:
            scale, good = scale * settings["growth_factor"], 0
    weights = {name: p.detach() for name, p in model.named_parameters()}
    return Training(batches, weights, scale)


def _summed(model, pairs, scale):
    """The losses and gradients of the micro-batches of one batch."""
    total, parts = 0.0, []
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for images, labels in pairs:
        # under autocast cross_entropy has its logarithms in 16 bits, its mean in 32
        logs = _rounded(log_softmax(in_float16(model, images), 1))
        loss = nll_loss(logs, labels) / len(pairs)
        grads = torch.autograd.grad(scale * loss, list(model.parameters()))
        total += loss.item()
        parts.append({name: grad / scale for name, grad in zip(before, grads)})
    return Batch(total, scale, parts, sum(map(flat, parts)).norm().item(), before)


def flat(grads: dict) -> torch.Tensor:
    """Return all numbers of a state dict in one row."""
    return torch.cat([grad.detach().flatten() for grad in grads.values()])


def in_float16(model: nn.Sequential, images: torch.Tensor) -> torch.Tensor:
    """Return what a model gives under autocast, each layer's result rounded."""
    flowing = images
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            operands = map(_rounded, (flowing, layer.weight, layer.bias))
            if isinstance(layer, nn.Linear):
                flowing = _rounded(linear(*operands))
            else:
                flowing = _rounded(conv2d(*operands, padding=layer.padding))
        else:
            flowing = layer(flowing)
    return _rounded(flowing)


def _rounded(tensor):
    """To the nearest number of 16 bits; backward rounds its gradient, too."""
    return tensor.half().float()
