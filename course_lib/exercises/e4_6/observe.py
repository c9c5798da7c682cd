"""Exercise 4.6, in a rank: steps of a token model, watched one by one."""

import copy

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises.compare import gradients_of, group, state_of
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.counted_work import Work
from course_lib.exercises.e4_6.trainings import PADDING, loss_of
from course_lib.exercises.values import plain


class TokenTraffic(Traffic):
    """Counts as `Traffic` does, of a model that starts with an Embedding."""

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        result = Work.__torch_dispatch__(self, operator, _types, args, kwargs)
        table = operator.overloadpacket is torch.ops.aten.embedding_dense_backward
        # the gradient of the first table, with which a backward ends
        if table and result.shape == self._shape:
            self._held -= 1
        return result


def observe(rank, world_size, answer, given):
    """Return what each step of `answer` does with the micro-batches of this rank."""
    with group(rank, world_size) as device:
        model = DDP(given["model"](seed=rank).to(device))
        module, updates, steps = model.module, [], {}
        optimizer = given["optimizer"](module.parameters())
        _settle(model, device)
        # after it, for a closure computes them in the step itself
        optimizer.register_step_post_hook(
            lambda *_: updates.append(gradients_of(module))
        )
        for number, ranks in enumerate(given["steps"]):
            pairs = [tuple(part.to(device) for part in pair) for pair in ranks[rank]]
            needed = _needed(module, pairs)
            updates.clear()
            with TokenTraffic(module) as traffic:
                returned = plain(answer(model, optimizer, pairs))
            steps[number] = {
                "returned": returned,
                "weights": state_of(module),
                "updates": len(updates),
                "gradients": updates[-1] if updates else {},
                "sent": traffic.sent,
                "graphs": traffic.graphs,
                "passes": traffic.passes,
                "flops": traffic.flops.get(str(device), 0),
                "baseline": needed,
            }
        return {"steps": steps}


def _settle(model, device):
    """Run two steps, for in the second one DDP sends notes on its buckets."""
    for _ in range(2):
        model(torch.zeros(1, 2, dtype=torch.int64, device=device)).sum().backward()
    model.zero_grad()


def _needed(module, pairs):
    """FLOPs of a plain step: of all pairs, and what of them real targets need."""
    module, flops = copy.deepcopy(module), {"all": 0, "real": 0}
    for tokens, targets in pairs:
        with Work(module) as work:
            loss_of(module, tokens, targets).backward()
        count = sum(work.flops.values())
        real = (targets != PADDING).float().mean().item()
        flops = {"all": flops["all"] + count, "real": flops["real"] + real * count}
    return flops
