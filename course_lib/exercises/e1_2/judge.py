"""Exercise 1.2, decided: a cut with which both devices stay within a budget."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.e1_2.observe import mlp
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import size

_TEXTS = Texts("1.2")
# widths and samples: the first needs an early cut, the second a late one, in the third
# activations decide; 16 bytes for a parameter are too few in the fourth, and in the
# fifth activations without what a part gets
_SHAPES = (
    ((64, 1024, 1024, 1024, 16, 2048, 16, 2048, 16, 2048, 10), 64),
    ((64, 256, 256, 256, 256, 1024, 1024, 10), 64),
    ((8, 8192, 8, 8192, 8, 512, 512, 10), 256),
    ((384, 192, 64, 64, 512, 512, 512, 512, 10), 64),
    ((1024, 4, 16, 640, 10), 128),
)
_ORDER = ("first", "second")
_SPARE = 1.01  # of a budget, above what the second best cut needs
_STEP = 100_000  # bytes to which a budget is rounded up


def cases(seed: int) -> Iterator[Case]:
    """Yield five models; expected are pairs of what a device needs, by cut.

    A budget is just above the second best cut by the text: at least two are right.
    """
    for number, (widths, samples) in enumerate(_SHAPES if not seed else _drawn(seed)):
        model = mlp(widths, seed)
        with baseline.seeded(seed):
            x = torch.rand(samples, widths[0])
        needs = _needs(model, x)
        second = sorted(max(map(sum, pair)) for pair in needs.values())[1]
        budget = _STEP * round(_SPARE * second / _STEP + 0.5)
        given = {"model": model, "x": x, "budget": budget}
        yield Case(given, expected=(number + 1, needs))


def _drawn(seed):
    """The same with other widths and samples: all that is needed grows alike."""
    quarters = random.Random(seed).choices((3, 5, 6), k=len(_SHAPES))
    for part, (widths, samples) in zip(quarters, _SHAPES):
        *hidden, classes = widths
        yield [*(part * width // 4 for width in hidden), classes], part * samples // 4


def _needs(model, x):
    """By cut what each device needs as the text counts: parameters and activations."""
    parameters, outputs = [], [x.nbytes]
    with torch.no_grad():
        for module in model:
            x = module(x)
            parameters.append(20 * sum(p.numel() for p in module.parameters()))
            outputs.append(x.nbytes)

    def needed(first, last):
        held = outputs[first : last + 1]
        return sum(parameters[first:last]), sum(held) + max(held)

    cuts = range(1, len(model))
    return {k: (needed(0, k), needed(k, len(model))) for k in cuts}


def judge(case: Case, seen) -> str:
    """Compare the peaks of two steps with the budget."""
    [rank] = seen
    (number, needs), budget = case.expected, case.given["budget"]
    cut, returned = rank["cut"], rank["returned"]
    fill = {"number": number, "cut": cut, "modules": len(needs) + 1}
    if cut not in needs or "peaks" not in rank:
        why = "nothing" if returned is None else "what a cut is"
        fill |= {"returned": shown(returned), "last": len(needs)}
        raise _TEXTS.wrong("no cut", why=why, **fill)
    device = max(rank["names"], key=rank["peaks"].get)
    peak = rank["peaks"][device]
    if peak > budget:
        fuller = rank["names"].index(device)
        parameters, activations = needs[cut][fuller]
        fill |= {"peak": size(peak), "device": device, "budget": size(budget)}
        fill |= {"parameters": size(parameters), "activations": size(activations)}
        fill |= {"which": _ORDER[fuller], "other": _ORDER[1 - fuller]}
        fill["rest"] = size(sum(needs[cut][1 - fuller]))
        fits = [k for k, pair in needs.items() if max(map(sum, pair)) <= budget]
        why = "parameters" if parameters > budget else "activations"
        why = "next to it" if {cut - 1, cut + 1} & set(fits) else why
        raise _TEXTS.wrong("over budget", why=why, clue={"cut": cut}, **fill)
    return size(peak)
