"""Exercise 4.2, decided: a training with DDP that equals one plain process."""

import random
from collections.abc import Iterator

from course_lib.exercises import baseline
from course_lib.exercises.compare import SMALL, draw_steps, refuse_weights
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts

_TEXTS = Texts("4.2")
_BATCH = 64
_LEAST = 0.45  # of the bytes of gradients, which may be compressed


def cases(seed: int) -> Iterator[Case]:
    """Yield digits in whole batches on 2 ranks, and with a smaller last batch on 4.

    Expected are the weights of one process, and what each rank does for them.
    """
    numbers = random.Random(seed)
    sizes = [(2, 320, 3), (4, 100, 4)]
    if seed:
        sizes = [
            (of, 4 * numbers.randint(17, 60), numbers.randint(2, 4)) for of in (2, 4)
        ]
    for ranks, count, epochs in sizes:
        images, labels = baseline.samples(count + 40 * seed)
        data = images[-count:], labels[-count:]
        batches = list(baseline.batches(data, batch=_BATCH, epochs=epochs))
        start = baseline.network(10 * seed).state_dict()
        expected = {
            "weights": baseline.weights_after(batches, start=start),
            "batches": [len(labels) for _, labels in batches],
        }
        given = {"data": data, "epochs": epochs, "seed": 10 * seed}
        yield Case(given, ranks, trace=True, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare weights, then the work of each rank, what travelled, and the end."""
    facts = _facts(case, seen)
    wrong = _TEXTS.differing(facts[:-2])
    hint = f"Here {wrong}. {wrong.hint}" if wrong else _other_training(case, seen)
    returned, also = [one["returned"] for one in seen], wrong and wrong.clue
    refuse_weights(returned, case.expected["weights"], hint=hint, also=also)
    if wrong := _TEXTS.differing(facts):
        wrong.hint = f"{_TEXTS.hint('right weights')} {wrong.hint}"
        raise wrong
    steps, sent = len(case.expected["batches"]), len(_reduces(seen[0]))
    return f"{steps} steps" + (f" with {sent} all-reduces" if sent else "")


def _other_training(case, seen):
    """The hint for other weights where all costs are within their bounds."""
    epochs, share = case.given["epochs"], sum(case.expected["batches"]) / len(seen)
    found = {sum(one["passes"]) * epochs / share for one in seen}
    if len(found) == 1 and (count := found.pop()) > epochs and count.is_integer():
        return _TEXTS.hint("epochs", count=int(count), epochs=epochs)
    return _TEXTS.hint("plain")


def _facts(case, seen):
    """What each rank did; an answer may try a batch, or compress what it sends."""
    ranks, batches = len(seen), case.expected["batches"]
    share, once, steps = sum(batches) // ranks, max(batches) // ranks, len(batches)
    passes = [one["passes"] for one in seen]
    sent = [sum(_gradients(one)) for one in seen]
    reduces = [len(_reduces(one)) for one in seen]
    size = steps * baseline.size(baseline.network())
    return (
        ("share", [sum(one) for one in passes], share, share, 1.5 * share),
        ("at once", [max(one, default=0) for one in passes], once, 0, once),
        ("steps", [one["moves"] for one in seen], steps, steps, 1.5 * steps),
        ("gradients", sent, size, _LEAST * size, 1.8 * size),
        ("all-reduces", reduces, steps, 0, 1.5 * steps),
        ("not left", [int(not one["left"]) for one in seen], 0, 0, 0),
    )


def _gradients(one):
    """The bytes that a rank handed to collectives, but to small ones and broadcasts."""
    return [n for name, n in one["sent"] if name != "broadcast" and n > SMALL]


def _reduces(one):
    """The all-reduces of a rank but the small ones, which cost next to nothing."""
    return [n for name, n in one["sent"] if name == "all_reduce" and n > SMALL]


def draw(case: Case, seen):
    """Draw the timeline of the fourth and fifth step."""
    return draw_steps(seen.trace, 2, 4)
