"""Exercise 1.2, decided: a cut with which both devices stay within a budget."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e1_2 import mlp, observe
from course_lib.exercises.values import shown
from course_lib.text import size

# widths and samples: the first needs an early cut, the second a late one, in the third
# activations decide
_SHAPES = (
    ((64, 1024, 1024, 1024, 16, 2048, 16, 2048, 16, 2048, 10), 64),
    ((64, 256, 256, 256, 256, 1024, 1024, 10), 64),
    ((8, 8192, 8, 8192, 8, 512, 512, 10), 256),
)
_SPARE = 1.01  # of a budget, above what the second best cut needs
_STEP = 100_000  # bytes to which a budget is rounded up


def cases(seed: int) -> Iterator[Case]:
    """Three models; expected are pairs of what a device needs, by cut.

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
    numbers = random.Random(seed)
    wide, narrow = numbers.randrange(900, 1100), numbers.randrange(8, 20)
    tall, full = numbers.randrange(7000, 9000), numbers.randrange(490, 530)
    yield (64, wide, wide, wide, *(narrow, 2 * wide) * 3, 10), numbers.randrange(40, 80)
    yield (64, 256, 256, 256, 256, wide, wide, 10), numbers.randrange(40, 80)
    yield (8, tall, 8, tall, 8, full, full, 10), 256


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
    where, cut = f"model {number}", rank["cut"]
    if cut not in needs or "peaks" not in rank:
        raise Wrong(
            f"{where}: choose_cut returned {shown(rank['returned'])}, expected a whole"
            f" number from 1 to {len(needs)}",
            _NOTHING if rank["returned"] is None else _NO_CUT,
        )
    peaks = [rank["peaks"][name] for name in rank["names"]]
    fuller = peaks.index(max(peaks))
    if peaks[fuller] > budget:
        raise Wrong(
            f"{where}, cut {cut} of {len(needs) + 1} modules: a step needs"
            f" {size(peaks[fuller])} on {rank['names'][fuller]}, expected at most the"
            f" budget of {size(budget)}",
            _why(cut, fuller, case),
            clue={"cut": cut},
        )
    return size(peaks[fuller])


_NO_CUT = (
    "The cut k is the number of modules (Linear and ReLU both count) that go to the"
    " first device: model[:k] and model[k:]."
)
_NOTHING = (
    "Your search ended without a cut. Either it counts too much (20 bytes per NUMBER,"
    " so 5 × p.nbytes; of the activations only the largest counts twice), or no return"
    " was reached. You need no exact bytes: return the k whose fuller device holds"
    " least."
)


def _why(cut, fuller, case):
    """What fills the device, and what the text counts for both."""
    (_, needs), budget = case.expected, case.given["budget"]
    parameters, activations = needs[cut][fuller]
    name, other = (("first", "second"), ("second", "first"))[fuller]
    counted = (
        f"The {name} device needs {size(parameters)} for parameters and"
        f" {size(activations)} for activations, the {other} one"
        f" {size(sum(needs[cut][1 - fuller]))} in all; each must stay below the budget."
    )
    fits = [k for k, pair in needs.items() if max(map(sum, pair)) <= budget]
    if cut - 1 in fits or cut + 1 in fits:
        why = "One more or fewer fits: k is the number of modules on the first device."
    elif cut == len(case.given["model"]) // 2:
        why = "Half of the modules is not half of the bytes: count bytes, not modules."
    elif parameters > budget:
        why = "A step with Adam needs 20 bytes for each parameter, on either device."
    else:
        why = (
            "The device is full of activations: samples × outputs of its layers × 4"
            " bytes, of the whole batch, beside 20 bytes for each parameter."
        )
    return f"{why} {counted}"


EXERCISE = Exercise(
    "1.2",
    observe,
    cases,
    judge,
    proof="a step stays within each budget, the fuller device of each model peaks at"
    " {}",
)
