"""Exercise 3.2, in a rank: replicas that are trained side by side, watched."""

import copy

import torch
from torch import nn
from torch.nn.functional import cosine_similarity
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercises.device_runs import on_devices
from course_lib.exercises.observe.e3_1 import costs, place_of, watched
from course_lib.exercises.spies import everywhere
from course_lib.exercises.values import Other, plain

_CROSS = {torch.ops.aten._to_copy: 0, torch.ops.aten.copy_: 1}  # places of the source


def observe(rank, world_size, answer, given):
    """The replicas that a training returns, its steps, and what it costs."""
    devs = on_devices(given["devices"])
    model = copy.deepcopy(given["model"]).to(devs[0])
    batches = [tuple(part.to(devs[0]) for part in pair) for pair in given["batches"]]
    steps, crossed, returned = [], Crossings(given["model"]), []
    hook = register_optimizer_step_pre_hook(lambda sgd, *_: steps.append(_state(sgd)))

    def call():
        with everywhere(crossed):
            # the replicas are kept here: what is watched hands copies back
            returned.append(answer(model, batches, devs))

    try:
        _, cost = watched(call, model, devs)
    finally:
        hook.remove()
    replicas = returned[0] if isinstance(returned[0], list | tuple) else []
    modules = [one for one in replicas if isinstance(one, nn.Module)]
    return cost | {
        "devices": tuple(map(str, devs)),
        "returned": _told(returned[0]),
        "places": list(map(place_of, modules)),
        "replicas": [flat(one.parameters()) for one in modules],
        "steps": [_on_cpu(*step) for step in steps],
        "weights": crossed.like_weights(),
        "baseline": {"flops": costs(given["model"])},
    }


class Crossings(TorchDispatchMode):
    """Notes in a block what goes to another device and is as long as some weights."""

    def __init__(self, model: nn.Module):
        super().__init__()
        whole = flat(model.parameters())
        weights = [*(p.detach().flatten() for p in model.parameters()), whole]
        self._weights = {len(part): part for part in weights}
        self._noted = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # operators are not wrapped against a compiler

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        place = _CROSS.get(operator.overloadpacket)
        sent = None if place is None else args[place]
        if sent is None or sent.device == result.device:
            return result
        if sent.numel() in self._weights:
            # the copy stays where it is: one to the CPU would be counted, too
            self._noted.append((sent.clone(), str(result.device)))
        return result

    def like_weights(self) -> dict[str, int]:
        """The bytes that look like weights, by the device they went to."""
        found = {}
        for tensor, target in self._noted:
            near = cosine_similarity(flat([tensor]), self._weights[tensor.numel()], 0)
            # weights stay near to what they were, gradients point anywhere
            if near > 0.7:
                found[target] = found.get(target, 0) + tensor.nbytes
        return found


def flat(tensors) -> torch.Tensor:
    """Tensors as one vector on the CPU."""
    return torch.cat([one.detach().cpu().flatten().float() for one in tensors])


def _state(optimizer):
    """The weights and gradients before a step, each a copy where it lies."""
    every = [p for group in optimizer.param_groups for p in group["params"]]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in every]
    return [p.detach().clone() for p in every], grads


def _on_cpu(weights, grads):
    device = str(weights[0].device)
    return {"device": device, "weights": flat(weights), "gradient": flat(grads)}


def _told(value):
    if isinstance(value, list | tuple):
        return Other(f"a list of {len(value)}")
    return plain(value)
