"""Exercise 1.2: choose the cut, so that both devices stay under a budget."""

import copy
import operator
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.device_runs import full, on_devices, watch
from course_lib.text import short, size

# widths, samples, budget in bytes: the first needs an early cut, the second a late one,
# in the third activations decide
_CASES = (
    ((64, 1024, 1024, 1024, 16, 2048, 16, 2048, 16, 2048, 10), 64, 29_000_000),
    ((64, 256, 256, 256, 256, 1024, 1024, 10), 64, 24_000_000),
    ((8, 2048, 8, 2048, 8, 2048, 8, 512, 512, 10), 1024, 41_000_000),
)

_NO_CUT = (
    "The cut k is the number of modules (Linear and ReLU both count) that go to the"
    " first device: model[:k] and model[k:]."
)
_NOTHING = (
    "Your search ended without a cut. Either it counts too much (20 bytes per NUMBER,"
    " so 5 × p.nbytes; a ReLU frees what went in), or no return was reached. You need"
    " no exact bytes: return the k whose fuller device holds least."
)


def check_cut(attempt: Attempt) -> str:
    """Train two steps with each cut, and compare both peaks with the budget."""
    peaks = []
    for number, case in enumerate(_CASES, 1):
        (seen,) = attempt(_train, case, world_size=1, why=_why_failed)
        budget, where = case[-1], f"model {number} of {len(_CASES)}"
        if "said" in seen:
            raise Wrong(
                f"{where}: choose_cut returned {seen['said']}, expected a whole number"
                f" from 1 to {seen['modules'] - 1}",
                _NOTHING if seen["said"] == "None" else _NO_CUT,
            )
        fuller = max(range(2), key=seen["peaks"].__getitem__)
        peaks.append(seen["peaks"][fuller])
        if peaks[-1] > budget:
            raise Wrong(
                f"{where}, cut {seen['cut']} of {seen['modules']} modules: a step needs"
                f" {size(peaks[-1])} on {seen['names'][fuller]}, the budget is"
                f" {size(budget)}",
                _why(seen, fuller),
            )
    found = ", ".join(map(size, peaks))
    return f"the fuller device of each model peaks at {found}, within every budget"


def network(widths) -> nn.Sequential:
    """Linear layers of these widths, a ReLU behind all but the last."""
    torch.manual_seed(0)
    pairs = zip(widths, widths[1:])
    layers = [module for pair in pairs for module in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def _train(_rank, _world_size, answer, /, case):
    widths, samples, budget = case
    model = network(widths)
    x = torch.rand(samples, widths[0], generator=torch.Generator().manual_seed(0))
    cut = answer(copy.deepcopy(model), x.clone(), budget)
    seen = {"modules": len(model)}
    try:
        cut = operator.index(cut)
    except TypeError:
        return seen | {"said": short(cut)}
    if not 1 <= cut < len(model):
        return seen | {"said": f"{cut}"}
    sizes = [sum(p.nbytes for p in module.parameters()) for module in model]
    seen |= {"cut": cut, "sizes": sizes, "parameters": [sum(sizes[:cut])]}
    seen["parameters"].append(sum(sizes[cut:]))
    devs = on_devices(2)
    seen["peaks"] = _peaks((model[:cut], model[cut:]), x, devs)
    return seen | {"names": [str(device) for device in devs]}


def _peaks(parts, x, devs):
    """The most bytes that each device holds in two steps with Adam."""
    # the first product on a real GPU takes a work space that is no tensor of ours
    for device in devs if devs[0].type == "cuda" else ():
        torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
    run = watch(partial(_two_steps, parts, x, devs), devs)
    return [run.peak[str(device)] - run.before[str(device)] for device in devs]


def _two_steps(parts, x, devs):
    parts = [part.to(device) for part, device in zip(parts, devs)]
    optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()])
    labels = torch.arange(len(x)) % 10
    for _ in range(2):
        optimizer.zero_grad()
        output = parts[1](parts[0](x.to(devs[0])).to(devs[1]))
        cross_entropy(output, labels.to(devs[1])).backward()
        del output
        optimizer.step()


def _why(seen, fuller):
    """What fills the device: activations, or 20 bytes for each parameter."""
    peak, held_there = seen["peaks"][fuller], seen["parameters"][fuller]
    name = seen["names"][fuller]
    if peak > 2 * 5 * held_there:
        return (
            f"{name} holds few parameters, its memory is full of activations: samples ×"
            " outputs of its layers × 4 bytes. Count both, and take the cut whose"
            " fuller device holds least."
        )
    if seen["cut"] == seen["modules"] // 2:
        return (
            "Half of the modules is not half of the bytes: the layers differ. Count"
            " bytes, not modules."
        )
    if held_there > 0.99 * sum(seen["sizes"]):
        return (
            f"Nearly all parameters lie on {name}. Add up the bytes of model[:k] and"
            " model[k:] for every k, and take the k whose larger sum is smallest."
        )
    return (
        f"{name} holds {size(held_there)} of parameters, and a step with Adam needs"
        " five times that. Take the cut whose fuller device holds least."
    )


def _why_failed(error):
    if full(error) is None:
        return None
    return (
        f"GPU {full(error)} ran out of memory while your function tried a cut. Trying"
        " is fine: catch torch.OutOfMemoryError, and let go of the model each time."
    )
