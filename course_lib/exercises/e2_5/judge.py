"""Exercise 2.5, decided: the fewest blocks whose recomputation holds a budget."""

import math
import random
from collections.abc import Iterator

from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many, size

_TEXTS = Texts("2.5")
_COUNT = 7  # blocks of each model
# Models whose budget asks for 2, 3, 0 and 1 blocks: the inner widths of each block, the
# rows of x, and blocks that shall just hold the budget. These were searched for: the
# largest blocks, the first or last ones, forward alone, the sum of what is kept and
# dropping blocks in order all give other sets, for one of the budgets at least.
_MODELS: tuple = (
    (
        (((81,), (52, 76), (224,), (137,), (287,), (389,), (91, 205)), 149, (2, 4)),
        (((142,), (105, 177), (61, 69), (282,), (383,), (101,), (190,)), 170, (1, 3)),
        (((91, 80), (103, 147), (64,), (47,), (285,), (360,), (255,)), 254, (1, 4)),
        (((71, 69), (62, 197), (120,), (239,), (156,), (383,), (238,)), 211, (1, 3)),
        (((43,), (88, 47), (70,), (72,), (136, 40), (342,), (115,)), 134, (1, 4)),
    ),
    (
        (((42, 127), (46, 57), (90,), (364,), (54,), (156,), (141,)), 221, (0, 2, 3)),
        (((98,), (162,), (46,), (144, 46), (375,), (212,), (103, 157)), 217, (1, 3, 4)),
        (((157, 156), (45,), (99,), (387,), (106,), (135,), (44, 159)), 252, (0, 2, 3)),
        (((57,), (102, 47), (65,), (127,), (296,), (204,), (153, 130)), 170, (1, 3, 4)),
    ),
    (
        (((159,), (298,), (104, 53), (265,), (390,), (186,), (118, 176)), 138, ()),
        (((70, 72), (233,), (91, 43), (280,), (366,), (80,), (188,)), 173, ()),
    ),
    (
        (((165,), (94, 136), (166,), (347,), (392,), (336,), (69, 179)), 123, (3,)),
        (((63,), (98, 137), (362,), (397,), (144, 71), (63,), (173,)), 117, (2,)),
        (((179,), (129,), (44, 116), (44,), (276,), (302,), (86, 194)), 130, (4,)),
    ),
)


def cases(seed: int) -> Iterator[Case]:
    """Yield four models and budgets; other seeds take others, with other widths."""
    numbers = random.Random(seed)
    for models in _MODELS:
        widths, rows, wanted = numbers.choice(models) if seed else models[0]
        if seed:  # so little that the same blocks are wanted
            rows = round(rows * numbers.uniform(0.95, 1.05))
            widths = [
                [round(width * numbers.uniform(0.97, 1.03)) for width in inner]
                for inner in widths
            ]
        given = {"widths": widths, "rows": rows, "wanted": wanted}
        yield Case(given | {"again": models is _MODELS[-1]})


def judge(case: Case, seen) -> str:
    """Compare with the smallest sets, by real steps; look at what is left."""
    [rank] = seen
    told = rank["baseline"]
    right, budget = told["right"], told["budget"]
    fill = {"least": len(right[0]), "budget": size(budget), "left": size(rank["left"])}
    fill |= {"returned": shown(rank["returned"]), "last": _COUNT - 1}
    chosen = _numbers(rank["returned"], fill)
    if rank["moved"]:
        raise _TEXTS.wrong("moved", **fill)
    if chosen not in right:
        fill |= {"peak": size(told["peak"]), "forward": size(told["forward"])}
        fill |= {"busy": told["busy"], "blocks": many(len(chosen), "block")}
        clue = {"chosen": [int(i in chosen) for i in range(_COUNT)]}
        if told["peak"] > budget:
            raise _TEXTS.wrong(_too_high(chosen, told), clue=clue, **fill)
        raise _too_many(rank, clue=clue, fill=fill)
    facts = (
        ("gradients", [rank["grads"]], 0, 0, 0),
        ("left", [rank["left"]], 0, -math.inf, 0),
    )
    _TEXTS.refuse(facts, **fill)
    return str(len(chosen))


def _numbers(returned, fill):
    """The numbers of blocks in what was returned, each once and in order."""
    if returned is None:
        raise _TEXTS.wrong("nothing", clue={"type": "NoneType"}, **fill)
    several = returned if isinstance(returned, list | tuple) else [None]
    kinds = {type(i) for i in several}
    marks = kinds == {int} and len(several) == _COUNT and set(several) <= {0, 1}
    if marks or bool in kinds:
        raise _TEXTS.wrong("marks", clue={"marks": True}, **fill)
    if kinds - {int}:
        clue = {"type": type(returned).__name__}
        raise _TEXTS.wrong("no numbers", clue=clue, **fill)
    others = [i for i in returned if not 0 <= i < _COUNT]
    if others:
        raise _TEXTS.wrong("no such block", clue={}, other=shown(others[0]), **fill)
    return sorted(set(returned))


def _too_high(chosen, told):
    """The name of the text for blocks whose peak is over the budget."""
    if not chosen:
        return "none"
    if [i - 1 for i in chosen] in told["right"]:
        return "from 1"
    if [i for i in range(_COUNT) if i not in chosen] in told["right"]:
        return "the others"
    return "in backward" if told["forward"] <= told["budget"] else "too high"


def _too_many(rank, *, clue, fill):
    """The `Wrong` of blocks that hold the budget, and are more than are needed."""
    told = rank["baseline"]
    if not fill["least"]:
        return _TEXTS.wrong("needless", clue=clue, **fill)
    if rank["grads"]:
        return _TEXTS.wrong("too many", why="with gradients", clue=clue, **fill)
    for number, peak in reversed(told["spared"]):
        if peak <= told["budget"]:
            fill |= {"spare": number, "less": size(peak)}
            return _TEXTS.wrong("too many", why="to spare", clue=clue, **fill)
    return _TEXTS.wrong("too many", why="another set", clue=clue, **fill)
