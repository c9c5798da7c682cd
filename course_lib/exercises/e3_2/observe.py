"""Exercise 3.2, in a rank: replicas that are trained side by side, watched."""

import copy
from collections import Counter
from functools import partial

from torch import nn
from torch.nn.functional import cosine_similarity
from torch.nn.utils import parameters_to_vector
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_lib.exercises import baseline
from course_lib.exercises.compare import state_of
from course_lib.exercises.counted_work import Copies, everywhere, flops_of
from course_lib.exercises.device_runs import on_devices
from course_lib.exercises.e3_1.observe import place_of, watched
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return the replicas of a training, its steps, and what it costs."""
    devs = on_devices(given["devices"])
    model = copy.deepcopy(given["model"]).to(devs[0])
    batches = [tuple(part.to(devs[0]) for part in pair) for pair in given["batches"]]
    names = [name for name, _ in model.named_parameters()]
    steps, copies = [], Copies()
    hook = register_optimizer_step_pre_hook(lambda sgd, *_: steps.append(_state(sgd)))
    try:
        with everywhere(copies):
            call = partial(answer, model, batches, devs)
            returned, cost = watched(call, model, devs)
    finally:
        hook.remove()

    def named(tensors):
        return state_of(dict(zip(names, tensors)))

    told = plain(returned)  # of a list that is too long it is none
    replicas = returned if isinstance(told, list | tuple) else []
    modules = [one for one in replicas if isinstance(one, nn.Module)]
    return cost | {
        "devices": tuple(map(str, devs)),
        "returned": told,
        "replicas": {place_of(one): named(one.parameters()) for one in modules},
        "steps": [
            {"device": str(w[0].device), "weights": named(w), "gradient": named(g)}
            for w, g in steps
        ],
        "weights": _like_weights(copies.tensors, given["model"]),
        "baseline": {"flops": flops_of([baseline.samples(1)])},
    }


def _state(optimizer):
    """The weights and gradients before a step, each a copy where it lies."""
    every = [p for group in optimizer.param_groups for p in group["params"]]
    grads = [p.detach() * 0 if p.grad is None else p.grad.clone() for p in every]
    return [p.detach().clone() for p in every], grads


def _like_weights(copies, model):
    """The bytes that look like weights, by the device they went to."""
    whole, sent = parameters_to_vector(model.parameters()), Counter()
    parts = {p.numel(): p.detach().flatten() for p in (*model.parameters(), whole)}
    for _, target, tensor in copies:
        mine = tensor.detach().cpu().flatten().float()
        # weights stay near to what they were, gradients point anywhere
        known = parts.get(len(mine))
        if known is not None and cosine_similarity(mine, known, 0) > 0.7:
            sent[target] += tensor.nbytes
    return dict(sent)
