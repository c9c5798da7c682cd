"""Exercise 6.4: the batch size that costs least."""

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import number_of
from course_lib.exercises.stages.stage06.buying_case import Case, near
from course_lib.exercises.stages.stage06.buying_mistakes import why_cost
from course_lib.text import short

# not in order; the third one rises, falls and rises again where a GPU is added
_CASES = (
    Case(
        {256: 14300, 512: 9400, 64: 42800, 128: 23800, 4096: 5950}
        | {2048: 5880, 1024: 7120},
        images_per_gpu=48,
        step_seconds=14.5,
        gpu_hour=2.4,
        waiting_day=400,
    ),
    Case(
        {2048: 10800, 256: 31500, 64: 98000, 1024: 13600, 512: 19500}
        | {128: 54500, 4096: 9350},
        images_per_gpu=256,
        step_seconds=2.6,
        gpu_hour=3.1,
        waiting_day=0,
    ),
    Case(
        {48: 30500, 96: 16800, 120: 14100, 192: 9300, 240: 7800, 384: 5900}
        | {768: 4150, 1536: 3250},
        images_per_gpu=96,
        step_seconds=9,
        gpu_hour=1.7,
        waiting_day=96,
    ),
)
# words of an error, and the hint for it
_ERRORS = (
    (
        "cannot unpack non-iterable int",
        "A loop over a dict gives its keys alone. steps.items() gives pairs of batch"
        " size and steps.",
    ),
    (
        "KeyError: 0",
        "The keys of `steps` are batch sizes, not 0, 1, 2: steps[256] is the number of"
        " steps of 256.",
    ),
    (
        "changed size during iteration",
        "Leave `steps` as it is, and put the costs into a dict of their own.",
    ),
    (
        "not callable",
        "The key of min() is a function of the batch size, not a cost: key=cost.",
    ),
    (
        "unsupported operand type(s) for",
        "`steps` is a dict: the steps of one batch size are steps[size].",
    ),
    (
        "division by zero",
        "Prices may be 0, as of a wait that costs nothing: do not divide by them.",
    ),
)


def check_cheapest(attempt: Attempt) -> str:
    """Compare batch size and cost for three sets of prices."""
    [answers] = attempt(_bought, *_CASES, world_size=1, why=_why_failed)
    for i, (case, seen) in enumerate(zip(_CASES, answers)):
        _judge(case, seen, _CASES[:i])
    first, *others = (f"{case.cheapest()}" for case in _CASES)
    return f"batch sizes {first}, {' and '.join(others)}, and what each one costs"


def _bought(rank, world_size, answer, /, *cases):
    return [_answered(answer, case) for case in cases]


def _answered(answer, case):
    steps = dict(case.steps)
    value = answer(steps, *case[1:])
    seen = {"said": short(value), "number": number_of(value), "parts": None}
    seen |= {"type": type(value).__name__, "changed": steps != case.steps}
    if isinstance(value, (str, dict, set)):
        return seen
    try:
        parts = list(value)
    except TypeError:
        return seen
    texts = [isinstance(part, str) for part in parts]
    return seen | {"parts": [number_of(part) for part in parts], "text": any(texts)}


def _judge(case, seen, earlier):
    best = case.cheapest()
    cost = case.cost(best)
    prices = ", ".join(f"{k}={v}" for k, v in case._asdict().items() if k != "steps")
    where, expected = f"with {prices}", f"{best} and {cost:.2f}"
    parts = seen["parts"]
    if parts is None or len(parts) != 2 or None in parts:
        raise Wrong(
            f"{where}: cheapest returned {seen['said']}, expected a pair, {expected}",
            _why_no_pair(case, seen),
        )
    if parts[0] not in case.steps:
        raise Wrong(
            f"{where}: cheapest returned {parts[0]:g} and {_said(parts[1])}, expected"
            f" {expected}",
            _why_no_size(case, parts),
        )
    if parts[0] != best or not near(parts[1], cost):
        raise Wrong(
            f"{where}: cheapest returned {parts[0]:g} and a cost of {_said(parts[1])},"
            f" expected {expected}",
            why_cost(case, parts, earlier),
        )
    if seen["changed"]:
        raise Wrong(
            "the pair is right, but `steps` holds something else than before",
            "Whoever calls cheapest still needs `steps`. Leave it as it is, and put the"
            " costs into a dict of their own.",
        )


def _said(cost):
    return f"{cost:.2f}" if abs(cost) >= 1 else f"{cost:.3g}"


def _why_no_pair(case, seen):
    best, number, parts = case.cheapest(), seen["number"], seen["parts"]
    if seen["type"] == "NoneType":
        return "What was computed is lost: `return` it."
    if seen["type"] in ("dict", "set"):
        return "Neither a dict nor a set: the batch size and its cost, in this order."
    if seen["type"] == "str" or seen.get("text"):
        return "Return numbers, not text: whoever calls it computes with them."
    if number is not None and near(number, case.cost(best)):
        return "The cost is right, but of which batch size? Return that, too."
    if number == best:
        return "The batch size is right. Return its cost, too."
    if number is not None:
        return "One number is not enough: return size, cost."
    if parts and len(parts) > 2:
        return "Exactly two numbers: the batch size and its cost."
    if parts and len(parts) == 2 and parts[0] is None:
        return "The first of the pair is the batch size, a number."
    return "Return two numbers: the batch size and its cost."


def _why_no_size(case, parts):
    best = case.cheapest()
    sizes = list(case.steps)
    if parts[1] in sizes:
        return "The pair is swapped: first the batch size, then its cost."
    if parts[0] in (sizes.index(best), sorted(sizes).index(best)):
        return "This is the position of the batch size in `steps`. Return the key."
    if parts[0] in case.steps.values():
        return "This is a number of steps. Return the key of it, the batch size."
    if parts[0] == case.gpus(best):
        return "This is the number of GPUs. Return the batch size that they share."
    return "The first of the pair must be one of the keys of `steps`."


def _why_failed(error):
    return next((hint for words, hint in _ERRORS if words in str(error)), None)
