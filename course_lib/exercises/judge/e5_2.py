"""Exercise 5.2, decided: Hogwild, several processes that train one model, no lock.

Which updates are lost differs from run to run: hints follow from what the processes
did, and few mistakes have a fingerprint.
"""

import random
import statistics
from collections.abc import Iterator

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e5_1 import (
    failed,
    refuse_one_by_one,
    refuse_other_number,
    refuse_unfinished,
)
from course_lib.exercises.observe.e5_2 import BATCH, LONGEST, observe

_NEAR = 0.2  # of a factor; a lost update has none, and one that counts twice 2


def cases(seed: int) -> Iterator[Case]:
    """Five processes, and three with a last batch that is not full."""
    numbers = random.Random(seed)
    sizes = ((5, 1024), (3, 180))
    if seed:
        last = numbers.choice((5, 14, 25)) + BATCH * numbers.randint(4, 9)
        sizes = (
            (numbers.choice((2, 6)), 320),
            (4, last),
        )
    for processes, count in sizes:
        data = baseline.samples(count)
        full, rest = divmod(count, BATCH)
        expected = [BATCH] * full + [rest] * (rest > 0)
        yield Case({"data": data, "processes": processes}, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare what each process trained with, and how much of it is in the model."""
    [rank] = seen
    processes, own = case.given["processes"], rank["trainers"]
    hint = (
        "Each process has a loop of its own over the data; `processes` says how many."
    )
    refuse_other_number(len(own), processes, what="", hint=hint)
    refuse_unfinished(rank, own, "who uses the model now finds it half trained")
    for number in range(processes):
        _judge_samples(case, rank, number)
    _judge_own(case, rank)
    _judge_gradients(case, rank)
    _judge_updates(case, rank)
    refuse_one_by_one(rank, processes)
    _refuse_locks(case, rank)
    total = processes * len(case.expected)
    return f"{total} of {total} updates of {processes} processes"


def _judge_samples(case, rank, number):
    processes, expected = case.given["processes"], case.expected
    sizes, read = sum(rank["sizes"][number:][:1], []), rank["samples"][number:][:1]
    count = sum(expected)
    if sizes != expected:
        steps = len(sizes) if len(sizes) < LONGEST else f"over {LONGEST}"
        raise Wrong(
            f"process {number} of {processes} trained with {steps} batches, of"
            f" {sum(sizes)} samples together; expected {len(expected)} of {count}",
            _why_samples(case, rank),
        )
    found = sorted(read[0].tolist()) if read else []
    if found != list(range(count)):
        raise Wrong(
            f"process {number} of {processes} trained with {len({*found})} different"
            f" samples, expected {count}",
            "Each process goes once through all samples: shuffle them, and take batch"
            " after batch.",
        )


def _why_samples(case, rank):
    """The hint for processes that trained with too few, too many or no samples."""
    steps, sizes = rank["gradients"], [set(part) for part in rank["sizes"]]
    count, processes = sum(case.expected), case.given["processes"]
    trained = [sum(part) for part in rank["sizes"]] or [0]
    if not any(steps[1:]):
        return (
            "The process that calls train does all the training itself. The loop over"
            " the data belongs into the function that each process runs."
            if any(steps)
            else "No process computes a gradient of this model with samples of `data`."
        )
    if count - BATCH < max(trained) < count and sizes[0] == {BATCH}:
        return "The last batch is not full, and counts as well: no drop_last."
    whole = max(steps) < LONGEST  # or it trained for longer than was noted
    if whole and max(trained) * processes <= count + BATCH * processes:
        return (
            "Here each process goes through all samples. You gave each a share of them,"
            " as a DistributedSampler does."
        )
    if max(set().union(*sizes)) != BATCH or max(trained) == count:
        return f"A batch has {BATCH} samples, in every process."
    return "Each process goes through the data once: one epoch, no more, no less."


def _judge_own(case, rank):
    """What each process must have for itself: a thread, an order of the samples."""
    processes, threads = case.given["processes"], max(rank["threads"][1:], default=0)
    if threads > 1:
        raise Wrong(
            f"each of {processes} processes computes with {threads} threads, expected"
            " 1",
            "Then the threads of all processes fight for the cores, and more processes"
            " are slower. First line of each process: torch.set_num_threads(1).",
        )
    orders = [tuple(part.tolist()) for part in rank["samples"]]
    if len(set(orders)) == len(orders):
        return
    one = next(order for order in orders if orders.count(order) > 1)
    stored = list(one) == list(range(sum(case.expected)))
    raise Wrong(
        f"{orders.count(one)} of {processes} processes read the samples in the same"
        " order",
        "Nobody shuffles: every process reads the samples as they are stored."
        if stored
        else "Either the order is drawn once, before the start, or a fork copies the"
        " state of PyTorch's random numbers, so all processes shuffle alike. Give each"
        " a seed of its own, torch.manual_seed(...), and let it shuffle there.",
    )


def _judge_gradients(case, rank):
    """What the gradients are of, and that each process has its own."""
    if any(rank["beside"]):
        raise Wrong(
            "the gradients are in shared memory:"
            f" {case.given['processes']} processes add to the same ones",
            "The model came with gradients, and share_memory() shares these, too. Drop"
            " them, then each backward makes its own: zero_grad() does so before the"
            " first backward, unless it is told set_to_none=False.",
        )
    worst = max(sum(rank["scales"], []), key=lambda scale: abs(scale - 1), default=1)
    if not max(sum(rank["rests"], []), default=0) < 0.05:
        raise Wrong(
            "backward begins with another loss than the mean cross-entropy of a batch",
            "Call backward on cross_entropy(model(images), labels), as it is: each"
            " image with its own label.",
        )
    if not abs(worst - 1) < 0.05:
        raise Wrong(
            f"backward begins with {worst:.3g} times the mean cross-entropy of a batch",
            "Call backward on cross_entropy(model(images), labels), as it is: a mean,"
            " without a factor.",
        )


def _judge_updates(case, rank):
    total = case.given["processes"] * len(case.expected)
    by_process, earlier = rank["arrived"]["factors"], rank["arrived"]["earlier"]
    by_process = [part for part in by_process if part]
    factors = sum(by_process, [])
    if not factors:
        raise Wrong(
            "the weights of `model` are no numbers (nan)",
            "The steps are far too long, or go uphill: take 0.1 times the gradient away"
            " from each weight.",
        )
    if max(map(abs, factors)) < 0.05:
        raise Wrong(
            f"none of {total} updates is in `model`",
            _why_nothing(rank),
            clue={"earlier": abs(earlier) > 0.05, "shared": rank["shared"]},
        )
    far = max(factors, key=lambda factor: abs(factor - 1))
    usual = statistics.median(factors)
    uniform = max(abs(factor - usual) for factor in factors) < _NEAR * abs(usual)
    lost = sum(abs(factor) < 0.5 for factor in factors)
    # what is never set to zero counts in each update that comes after it
    falling = [p for p in by_process if abs(p[0] / len(p) - 1) < _NEAR < p[0] - p[-1]]
    if not rank["arrived"]["rest"] < 0.1:
        raise Wrong(
            f"the weights moved in another way than {total} steps of SGD move them",
            "It must be SGD: Adam and others divide by what they have seen, each"
            " process by something else.",
        )
    stale = 0.5 < earlier < 1.1 * total and min(factors) > -_NEAR
    if stale or len(falling) == len(by_process):
        first = max(part[0] for part in by_process)
        raise Wrong(
            f"a first gradient moved the weights {first:.1f} times, and one of the"
            f" earlier training {earlier:.1f} times; expected 1 and 0",
            "backward adds to the gradients that are there. Call zero_grad() before"
            " each backward, the first one as well.",
        )
    # weights that two write at once are of both, and one may seem to count for more
    overwritten = lost > len(factors) / 4 and min(factors) > -_NEAR
    if uniform and abs(usual - 1) > _NEAR or not overwritten and abs(far) > 1 + _NEAR:
        raise Wrong(
            f"an update moved the weights {far:.1f} times as far as SGD with rate"
            f" {baseline.RATE} does",
            "Plain SGD takes from each weight 0.1 times its gradient: rate 0.1, no"
            " momentum, no factor for the number of processes.",
            clue={"usual": usual, "copies": all(rank["private"][1:])},
        )
    if lost or abs(far - 1) > _NEAR:
        raise Wrong(
            f"of {total} updates {max(lost, 1)} were lost",
            "The optimizer steps less often than backward is called: step() after each"
            " backward, inside of the loop."
            if 0 < sum(rank["steps"][1:]) < total
            else "A process that copies its own weights over the shared ones wipes out"
            " what others did since it read them. Step on the shared parameters"
            " themselves, in place (`p -= ...`, no copy_): they get the difference.",
        )
    if rank["unchanged"]:
        raise Wrong(
            f"{len(rank['unchanged'])} parameters got no update, the first is"
            f" {rank['unchanged'][0]}",
            "All parameters are trained and shared, biases too: model.share_memory()"
            " shares them all.",
        )


def _why_nothing(rank):
    """The hint for weights that are still those of the start."""
    alone = any(rank["private"][1:])
    if alone and rank["private"] != rank["gradients"]:
        return (
            "The model is shared at first, but `p.data = ...` puts a private tensor in"
            " the place of the shared one. Write in place, `p.data -= ...`, or let the"
            " optimizer step."
        )
    if not rank["shared"]:
        return (
            "Each process trained a copy of its own, and it is gone. Call"
            " model.share_memory() in the parent, before the first process starts, and"
            " train this very model."
        )
    if alone:
        return (
            "The model is shared now, and was not when the processes started. Call"
            " model.share_memory() before the first start."
        )
    if not any(rank["steps"]):
        return (
            "The model is shared, but nobody changes its weights: the optimizer never"
            " steps."
        )
    return (
        "The model is shared, but the optimizers change another one. Give each the"
        " parameters of the shared model."
    )


def _refuse_locks(case, rank):
    processes = case.given["processes"]
    if any(rank["locked"]):
        raise Wrong(
            f"{processes} processes computed their gradients one at a time: each held a"
            " lock",
            "All updates are there, but a lock around the whole step makes everyone"
            " wait, as one process would be. Hogwild takes none.",
        )
    if any(rank["held_lock"]) or any(rank["own_lock"]):
        raise Wrong(
            f"{processes} processes held a lock when they changed the weights, expected"
            " none",
            "All updates are there, but Hogwild takes no lock, not even around"
            " optimizer.step(): a step that now and then meets another one does little"
            " harm, and nobody waits.",
        )
    if not any(rank["met"]):
        raise Wrong(
            f"{processes} processes took their steps, never two at the same time",
            "All updates are there, but something makes everyone wait for the others,"
            " as a lock does. Hogwild takes none.",
        )


EXERCISE = Exercise(
    "5.2",
    observe,
    cases,
    judge,
    proof="{} are in the model, without a lock",
    failed=failed,
)
