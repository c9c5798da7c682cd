"""Exercise 2.5, in a rank: blocks on a virtual GPU, and the peaks of their steps.

Peaks are measured by real steps. The budget lies halfway between the peak that it
shall just hold and the next one, so that rounding decides nothing.
"""

import gc
from functools import partial
from itertools import combinations, pairwise

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.exercises import baseline
from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.values import plain

WIDTH = 64  # of what goes into a block, and of what comes out


class Residual(nn.Module):
    """A block of a network, f32[n, 64] to f32[n, 64], with layers of other widths."""

    def __init__(self, *inner):
        super().__init__()
        layers = []
        for before, after in pairwise((WIDTH, *inner, WIDTH)):
            layers += [nn.Linear(before, after), nn.GELU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        """Add what the layers give to what goes in."""
        return x + self.layers(x)


def observe(rank, world_size, answer, given):
    """Return what the answer chose of the blocks, and what that does to the peak.

    Beside it the budget, the right choices, and what the answer left behind.
    """
    budget, right = costs(given)
    gc.collect()  # nothing of the steps above may count in those of the answer
    if given["again"]:  # what it keeps from a call may not decide the next one
        other = _another(given)
        _answered(answer, other, costs(other)[0])
        gc.collect()
    seen = _answered(answer, given, budget)
    gc.collect()
    told = {"budget": budget, "right": right} | _tried(given, seen["returned"])
    return seen | {"baseline": told}


def _another(given):
    """The same blocks in another order, with a budget that one block fulfils."""
    widths = [*given["widths"][2:], *given["widths"][:2]]
    return given | {"widths": widths, "wanted": (1,)}


def _answered(answer, given, budget):
    """What the answer returns, and what it leaves behind."""
    device, gpu = one_gpu()
    blocks, x = _made(given, device)
    weights = nn.ModuleList(blocks)  # the answer may change the list that it gets
    start = [p.detach().cpu().clone() for p in weights.parameters()]
    before = gpu.memory_allocated(device)
    returned = plain(answer(blocks, x, budget))
    gc.collect()
    after = [p.detach().cpu() for p in weights.parameters()]
    return {
        "returned": returned,
        "left": gpu.memory_allocated(device) - before,
        "grads": any(p.grad is not None for p in weights.parameters()),
        "moved": not all(map(torch.equal, start, after)),
    }


def costs(given):
    """Return the budget in bytes, and the smallest sets of blocks that hold it."""
    device, _ = one_gpu()
    blocks, x = _made(given, device)
    wanted = tuple(given["wanted"])
    numbers = range(len(blocks))
    sets = [s for count in range(len(wanted) + 1) for s in combinations(numbers, count)]
    peaks = {chosen: _peak(blocks, x, chosen) for chosen in sets}
    least = peaks[wanted]
    above = (peak for peak in peaks.values() if peak > least)
    # without recomputation no peak is higher
    budget = (least + min(above, default=least * 17 // 16)) // 2
    fitting = [chosen for chosen in sets if peaks[chosen] <= budget]
    return budget, [list(s) for s in fitting if len(s) == len(fitting[0])]


def _made(given, device):
    """The blocks and their input on a device, the same at each call."""
    with baseline.seeded():
        blocks = [Residual(*inner).to(device) for inner in given["widths"]]
        return blocks, torch.randn(given["rows"], WIDTH).to(device)


def _step(blocks, x, recompute):
    """One step, as the exercise gives it."""
    for number, block in enumerate(blocks):
        if number in recompute:
            x = checkpoint(block, x, use_reentrant=False)
        else:
            x = block(x)
    x.square().mean().backward()


def _peak(blocks, x, recompute):
    """The most bytes that are allocated in a step without gradients before."""
    gpu = torch.get_device_module(x.device)
    gpu.reset_peak_memory_stats(x.device)
    _step(blocks, x, recompute)
    for block in blocks:
        block.zero_grad()
    return gpu.max_memory_allocated(x.device)


def _tried(given, returned):
    """What a step shows of the blocks that were chosen; {} if these are no numbers.

    `peak`, and the one in `forward`; `busy`, the block that was in backward at the
    peak; `spared`, each block of them with the peak without it.
    """
    several = isinstance(returned, list | tuple)
    chosen = {i for i in returned if type(i) is int} if several else set()
    if not several or not chosen <= set(range(len(given["widths"]))):
        return {}
    device, gpu = one_gpu()
    besides = gpu.memory_allocated(device)  # what the answer left does not count here
    blocks, x = _made(given, device)
    spared = [[i, _peak(blocks, x, chosen - {i}) - besides] for i in sorted(chosen)]
    forward, backward = _followed(blocks)
    peak, last = _peak(blocks, x, chosen), len(blocks) - 1
    busy = min((i for i, before in backward.items() if before < peak), default=last)
    told = {"peak": peak - besides, "forward": forward[last] - besides}
    return told | {"busy": busy, "spared": spared}


def _followed(blocks):
    """Two dicts, which the next step fills by the numbers of blocks.

    The peaks until forward of a block ends, and until its backward begins.
    """
    forward, backward = {}, {}

    def follow(number, _block, _args, output):
        device = output.device
        gpu = torch.get_device_module(device)
        forward[number] = gpu.max_memory_allocated(device)

        def arrived(_gradient):
            backward[number] = gpu.max_memory_allocated(device)

        output.register_hook(arrived)

    for number, block in enumerate(blocks):
        block.register_forward_hook(partial(follow, number))
    return forward, backward
