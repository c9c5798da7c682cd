"""Exercise 4.2, decided: a training with DDP that equals one plain process."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import CLOSE, agree, apart, complete, gap, steps_of
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e4_2 import observe
from course_lib.exercises.values import shown

_BATCH = 64
_SMALL = 32  # bytes: a loss to report or a note of DDP's own, no gradient
_FIRST = "1.weight"  # the weight whose first steps are observed
_DRAWN = 2, 4  # steps
_LEAST = 0.45  # of the bytes of gradients, which may be compressed
_SAME = 0.01  # relative difference of two steps
_PLAIN = (
    "Compare with the plain training: mean cross-entropy, SGD with rate"
    f" {baseline.RATE}, zero_grad before each backward."
)


def cases(seed: int) -> Iterator[Case]:
    """Digits in whole batches on 2 ranks, and with a smaller last batch on 4.

    Expected are the weights of one process, and what each rank does for them.
    """
    numbers = random.Random(seed)
    sizes = (2, 320, 3), (4, 100, 4)
    if seed:
        sizes = [
            (of, 4 * numbers.randint(17, 60), numbers.randint(2, 4)) for of in (2, 4)
        ]
    for ranks, count, epochs in sizes:
        images, labels = baseline.samples(count + 40 * seed)
        data = images[-count:], labels[-count:]
        given = {"data": data, "epochs": epochs, "seed": 10 * seed}
        yield Case(given, ranks, trace=True, expected=_alone(given, ranks))


def _alone(given, ranks):
    """What one process ends with, and a rank's passes and order on the way."""
    data, count = given["data"], len(given["data"][0])
    begins = [
        baseline.network(given["seed"] + rank).state_dict() for rank in range(ranks)
    ]
    batches = list(
        baseline.batches(data, baseline.shuffled, batch=_BATCH, epochs=given["epochs"])
    )
    steps = [baseline.weights_after(batches[:n], start=begins[0]) for n in (1, 2)]
    return {
        "weights": baseline.weights_after(batches, start=begins[0]),
        "starts": [state[_FIRST] for state in (begins[0], *steps)],
        "begins": begins,
        "passes": [len(labels) // ranks for _, labels in batches],
        "order": [
            baseline.shuffled(count, epoch)[::ranks].tolist()
            for epoch in range(given["epochs"])
        ],
        "bytes": len(batches) * baseline.size(baseline.network()),
    }


def judge(case: Case, seen) -> str:
    """Compare weights, then the work of each rank, what travelled, and the end."""
    ranks, expected, trace = len(seen), case.expected, seen.trace
    least = _LEAST if complete(trace) else 0  # of bytes: what is cut proves nothing
    seen = [
        one | {"sent": _handed(trace, rank), "least": least}
        for rank, one in enumerate(seen)
    ]
    states = [_state(rank["returned"]) for rank in seen]
    found = agree(states, expected["weights"], hint=_why_apart(case, seen, states))
    off = gap(found, expected["weights"])
    if off > CLOSE:
        told = list(map(str, seen[0]["told"]))
        raise Wrong(
            f"the weights of {ranks} ranks differ from those of one process by up to"
            f" {off:.2g}, expected at most {CLOSE:g}",
            _why(case, seen, found),
            clue=apart(found, expected["weights"]),
            also={
                "one number": len(told) > 1 and len(set(told)) == 1,
                "twice": _sent(seen[0]) > 1.8 * expected["bytes"],
            },
        )
    costs = [_cost(expected, rank) for rank in seen]
    for rank, facts in enumerate(costs):
        for number, fact in enumerate(facts):
            if _differs(fact):
                did, *_, advice = fact
                raise Wrong(
                    f"rank {rank} of {ranks} {_told(fact)}",
                    f"The weights are right. {advice}",
                    clue={did: [one[number][1] for one in costs]},
                )
    steps, sent = len(expected["passes"]), len(_all_reduced(seen[0]))
    return f"{steps} steps" + (f" with {sent} all-reduces" if sent else "")


def _state(returned):
    """What was returned if it is a state dict, else the text of what it is."""
    named = isinstance(returned, dict) and all(isinstance(n, str) for n in returned)
    if named and returned and all(map(torch.is_tensor, returned.values())):
        return returned
    return shown(returned)


def _handed(trace, rank):
    """Pairs of a collective's name and the bytes that a rank handed to it."""
    return [(e.name, e.bytes) for e in trace.select(rank, "communicate")]


def _all_reduced(rank):
    """The bytes of each all-reduce but the small ones, which cost next to nothing."""
    sent = (size for name, size in rank["sent"] if name == "all_reduce")
    return [size for size in sent if size > _SMALL]


def _sent(rank):
    """The bytes that a rank handed to collectives but broadcasts."""
    return sum(size for name, size in rank["sent"] if name != "broadcast")


# --- facts: what a rank did, in words and as a number; the number that is expected, and
# how many times it may be; what to do


def _differs(fact):
    _, found, expected, (least, most), _ = fact
    return not least * expected <= found <= most * expected


def _told(fact):
    did, found, expected, *_ = fact
    return f"{did.format(found)}, expected {expected:,}"


def _cost(expected, rank):
    """Work, bytes and the end; with margins, for an answer may try a batch."""
    share, steps = sum(expected["passes"]), len(expected["passes"])
    most = max(rank["passes"], default=0)
    share_out = (
        "Each rank takes its own share of each batch, also of a smaller last one, in"
        " every epoch. Share it out by a DistributedSampler, without drop_last."
    )
    divide = f"All ranks together take {_BATCH}: batch_size=64 // world_size."
    step = "One step after each backward, of a batch of all ranks together."
    wrap = (
        "The gradients travel once in each step if you wrap the model, DDP(model), and"
        " call the wrapped one: without no_sync, and with no all_reduce of your own."
    )
    pack = "DDP packs the gradients of a small model into one bucket."
    leave = "Leave it before `return`, on every rank: dist.destroy_process_group()."
    return (
        ("trained with {:,} samples", sum(rank["passes"]), share, (1, 1.5), share_out),
        (
            "put {:,} samples through the model at once",
            most,
            max(expected["passes"]),
            (0, 1),
            divide,
        ),
        ("took {:,} steps", rank["moves"], steps, (1, 1.5), step),
        (
            "handed {:,} bytes of gradients to collectives",
            _sent(rank),
            expected["bytes"],
            (rank["least"], 1.8),
            wrap,
        ),
        ("made {:,} all-reduces", len(_all_reduced(rank)), steps, (0, 1.5), pack),
        ("returned in {} process group", int(not rank["left"]), 0, (1, 1), leave),
    )


def _why_apart(case, seen, states):
    """The hint for ranks that end with different weights."""
    begins = case.expected["begins"]
    if all(isinstance(s, dict) and gap(s, b) < CLOSE for s, b in zip(states, begins)):
        return _BEFORE
    if _sent(seen[0]) < _LEAST * case.expected["bytes"]:
        return (
            "No gradient travelled, so each rank trained a model of its own. Wrap the"
            " model, DDP(model), and call the wrapped one."
        )
    return (
        "Gradients travelled, but the ranks did not start from the same weights, or did"
        " not take the same steps."
    )


_BEFORE = (
    "These are the weights from before the training. Ask the model that was trained,"
    " after the last step: model.module.state_dict()."
)
_NO_STEP = (
    "These are the weights of the start: the optimizer never steps, or there is no"
    " gradient when it does. The order is zero_grad, backward, step."
)


def _why(case, seen, found):
    """The hint for ranks that agree with each other, but took other steps."""
    expected, first = case.expected, seen[0]
    if gap(found, expected["begins"][0]) < CLOSE:
        return _BEFORE if first["moves"] > 1 else _NO_STEP
    facts = [*_cost(expected, first)[:-2], *_order(expected["order"], seen)]
    for fact in facts:
        if _differs(fact):
            return f"Rank 0 {_told(fact)}. {fact[-1]}"
    return _why_steps(first["starts"], expected["starts"])


def _order(order, seen):
    """Facts on the samples that ranks 0 and 1 read, if they asked the data for them."""
    length = len(order[0])
    # longer by those that were only looked at
    read = [one["read"][-length * len(order) :] for one in seen[:2]]
    if any(len(one) < length * len(order) for one in read):
        return ()
    first, second = (
        [one[start:][:length] for start in range(0, len(one), length)] for one in read
    )
    both = sum(len(set(one) & set(other)) for one, other in zip(first, second))
    stored = sum(one == sorted(one) for one in first)
    repeated = sum(one == other for one, other in zip(first, first[1:]))
    other = sum(one != wanted for one, wanted in zip(first, order))
    shuffle = "All ranks shuffle with the same seed and epoch, each with its own rank."
    before = "Call sampler.set_epoch(epoch) on all ranks before each epoch."
    number = (
        "Leave the sampler its own seed, 0, and give it the epoch's number, from 0."
    )
    return (
        ("read {:,} samples that rank 1 read, too", both, 0, (1, 1), shuffle),
        ("read {} epochs as stored", stored, 0, (1, 1), "Let the sampler shuffle."),
        ("repeated the order in {} epochs", repeated, 0, (1, 1), before),
        ("read {} epochs in another order", other, 0, (1, 1), number),
    )


def _why_steps(starts, expected):
    """The hint for right samples in right batches: the first step that differs."""
    if any(start.shape != expected[0].shape for start in starts):
        return _PLAIN
    steps, rights = (
        [after - before for before, after in zip(one, one[1:])]
        for one in (starts, expected)
    )
    for number, (step, right) in enumerate(zip(steps, rights)):
        factor = (step * right).sum() / (right * right).sum()
        if (step - right).norm() <= _SAME * right.norm():
            continue
        if number:
            return (
                "The first step is right, the second is not: gradients of the first are"
                f" still there, or the optimizer remembers them. {_PLAIN}"
            )
        if (step - factor * right).norm() <= _SAME * step.norm():
            return (
                f"The first step is {factor:.3g} times as long as it should be. DDP"
                " averages the gradients, so neither loss nor rate needs a factor"
                " world_size."
            )
        return f"The first step goes in another direction. {_PLAIN}"
    return f"The first two steps are right, later ones are not. {_PLAIN}"


def failed(case: Case, wrong: Failed) -> str:
    """Say what a rank waits for, or why its connection is lost."""
    if wrong.error.kind in (*STUCK, "lost"):
        wrong.hint = (
            "Every rank trains, with the same number of steps: each backward waits for"
            " those of the others."
        )
    raise wrong


def draw(case: Case, seen):
    """Draw two steps of the first case, if there are as many."""
    from course_lib.plots.timeline import plot_timeline

    trace = steps_of(seen.trace, *_DRAWN)
    return plot_timeline(trace) if trace else None


EXERCISE = Exercise(
    "4.2",
    observe,
    cases,
    judge,
    proof="2 and 4 ranks share the samples and have the weights of one process after"
    " {}",
    draw=draw,
    failed=failed,
)
