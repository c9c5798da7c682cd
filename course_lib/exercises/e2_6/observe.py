"""Exercise 2.6, in a rank: a training in float16 with a scaler, watched."""

import copy
import itertools
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises.compare import are_same, gradients_of
from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu, watch
from course_lib.exercises.e2_1.observe import costs
from course_lib.exercises.values import plain

_HALVES = (torch.float16, torch.bfloat16)
_LOSSES = {torch.ops.aten.nll_loss_forward, torch.ops.aten.nll_loss}


class Precision(Work):
    """Counts as `Work` does, and notes in what precision each pass is computed.

    One entry of `types`, `fresh` and `scales` for each of `passes`: the type of the
    first layer's product, whether it is made of today's weights, the scale then.
    """

    def __init__(self, model: nn.Module, scaler: torch.amp.GradScaler):
        super().__init__(model)
        self._model, self._scaler = model, scaler
        self.types, self.fresh, self.scales = [], [], []
        self.kept = True  # weights as float32
        self.losses_in_halves = False

    def note_pass(self, packet, args) -> None:
        """Note a pass and its precision, and a loss that is computed in 16 bits."""
        before = len(self.passes)
        super().note_pass(packet, args)
        if len(self.passes) > before:
            self._note(args[self._places[packet][0]])
        elif packet in _LOSSES:
            self.losses_in_halves |= args[0].dtype in _HALVES

    def _note(self, used):
        own = next(self._model.parameters())
        self.types.append(str(used.dtype).removeprefix("torch."))
        pair = (each.detach().nan_to_num() for each in (used, own.to(used)))
        self.fresh.append(torch.equal(*pair))
        self.scales.append(self._scaler.get_scale())
        self.kept &= all(p.dtype == torch.float32 for p in self._model.parameters())


def observe(rank, world_size, answer, given):
    """Return what a training of `given["model"]` gives, step by step, and its costs.

    Beside it those of whole batches and of parts one after the other.
    """
    device, _ = one_gpu()
    found = _watched(answer, given, device=device, parts=given["parts"])
    needed = costs(partial(_watched, _plain, device=device), given)
    return found | {"baseline": needed, "device": str(device)}


def _watched(train, given, *, device, parts):
    model = copy.deepcopy(given["model"]).to(device)
    optimizer = given["optimizer"](model.parameters())
    scaler = torch.amp.GradScaler(device.type, **given["scaler"])
    batches = [tuple(part.clone() for part in pair) for pair in given["batches"]]
    work, handed, steps = Precision(model, scaler), list(batches), []
    # gradients and weights at each, on the CPU, where they take no room
    optimizer.register_step_pre_hook(
        lambda *_: steps.append((gradients_of(model), _weights(model)))
    )

    def call():
        with work:
            return plain(
                train(model, optimizer, scaler, handed, parts, given["max_norm"])
            )

    run = watch(call, [device])
    pairs = zip(itertools.chain(*batches), itertools.chain(*given["batches"]))
    kept = work.kept and all(p.dtype == torch.float32 for p in model.parameters())
    return {
        "returned": run.result,
        "weights": _weights(model),
        "kept": kept,
        "changed": not (
            are_same(handed, batches) and all(torch.equal(*pair) for pair in pairs)
        ),
        "steps": steps,
        "peak": max(run.peak.values()) - max(run.before.values()),
        "flops": work.flops,
        "passes": work.passes,
        "types": work.types,
        "fresh": work.fresh,
        "scales": [*work.scales, scaler.get_scale()],
        "losses_in_halves": work.losses_in_halves,
    }


def _weights(model):
    return {n: p.detach().cpu().clone() for n, p in model.named_parameters()}


def _plain(model, optimizer, scaler, batches, parts, max_norm):
    """Train with right accumulation: what costs are compared with."""
    device = next(model.parameters()).device
    for images, labels in batches:
        optimizer.zero_grad()
        for x, y in zip(images.chunk(parts), labels.chunk(parts)):
            with torch.autocast(device.type, torch.float16):
                loss = cross_entropy(model(x.to(device)), y.to(device)) / parts
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
