"""Exercise 4.4, in a rank: steps with accumulated gradients, watched one by one."""

import contextlib
import copy
from collections import Counter

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.compare import group, state_of
from course_lib.exercises.spies import Work
from course_lib.exercises.travel import Travel


def observe(rank, world_size, answer, given):
    """What each step of `answer` does with the micro-batches of this rank."""
    with group(rank, world_size) as device:
        model = DDP(baseline.network(seed=rank).to(device))
        optimizer = given["optimizer"](model.parameters())
        ddp, updates = _watched(model), []
        optimizer.register_step_pre_hook(lambda *_: updates.append(_grads(model)))
        steps = {}
        for number, batch in enumerate(given["batches"]):
            own = [part[rank::world_size].to(device) for part in batch]
            pairs = list(zip(*(part.chunk(given["parts"]) for part in own)))
            flops = _flops(model.module, pairs)
            updates.clear()
            ddp.clear()
            with Travel(model.module) as travel:
                answer(model, optimizer, list(pairs))
            steps[number] = {
                "weights": state_of(model.module),
                "updates": len(updates),
                "gradient": updates[0] if updates else {},
                "ddp": {name: ddp[name] for name in ("forward", "no_sync", "quiet")},
                "sent": travel.sent,
                "graphs": travel.graphs,
                "passes": travel.passes,
                "flops": travel.flops,
                "baseline": {"flops": flops},
            }
        return {"steps": steps, "device": str(device)}


def _flops(model, pairs):
    """The FLOPs of right accumulation, by device."""
    trial = copy.deepcopy(model)
    with Work(trial) as work:
        for images, labels in pairs:
            cross_entropy(trial(images), labels).backward()
    return work.flops


def _watched(model):
    """How often the wrapper is called, `no_sync` is, and its block is entered."""
    counts, original = Counter(), model.no_sync

    def no_sync():
        counts["no_sync"] += 1
        return entered()

    @contextlib.contextmanager
    def entered():
        counts["quiet"] += 1
        with original():
            yield

    model.no_sync = no_sync
    model.register_forward_pre_hook(lambda *_: counts.update(["forward"]))
    return counts


def _grads(model):
    named = model.module.named_parameters()
    return {n: p.grad.cpu().clone() for n, p in named if torch.is_tensor(p.grad)}
