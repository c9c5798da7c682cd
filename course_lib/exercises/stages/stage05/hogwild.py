"""Exercise 5.2: Hogwild, several processes that train one model without a lock."""

import statistics
import tempfile

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from course_lib.data import digits
from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.stages.stage05.company import Company
from course_lib.exercises.stages.stage05.hogwild_mistakes import (
    why_failed,
    why_far,
    why_lost,
    why_nothing,
    why_samples,
)
from course_lib.exercises.stages.stage05.splitting import Whole
from course_lib.exercises.stages.stage05.updates import BATCH, LONGEST, Updates
from course_lib.exercises.stages.stage05.watching import (
    refuse_one_by_one,
    refuse_unfinished,
    watched,
)

CASES = ((4, 1280), (2, 160))  # processes, samples


@baseline.settled()
def check_train(attempt: Attempt) -> str:
    """Solve for the updates that arrived; each was held until another one came."""
    new, accuracies = digits()[1].tensors, []
    for processes, count in CASES:
        data = baseline.samples(count)
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            given = data, new, processes, folder
            (seen,) = attempt(_train, *given, world_size=1, why=why_failed)
        for judge in _JUDGES:
            judge(seen, processes, count)
        accuracies.append(seen["accuracy"])
    accuracy, alone = accuracies[0], _accuracy(_alone(CASES[0][1]), new)
    if accuracy < alone - 0.2:
        raise Wrong(
            f"{accuracy:.0%} of new digits are right, plain training gets {alone:.0%}",
            "All updates are there, but they do not help. Is the loss the mean"
            " cross-entropy of a batch, with the weights of the model itself?",
        )
    total = CASES[0][0] * CASES[0][1] // BATCH
    return (
        f"{total} of {total} updates of 4 processes are in the model, without a lock;"
        f" {accuracy:.0%} of new digits right, plain training {alone:.0%}"
    )


def _train(rank, world_size, answer, /, *given):
    data, new, processes, folder = given
    import torch._dynamo  # an optimizer needs it: once, not in each process

    company, model = Company(), baseline.network()
    cross_entropy(model(data[0][:BATCH]), data[1][:BATCH]).backward()
    updates = Updates(company, model, data)
    largest = max(model.parameters(), key=torch.Tensor.numel)
    before = largest.detach().clone()
    whole = Whole(company)
    with watched(company, answer, folder), updates.noted(answer), whole:
        answer(model, TensorDataset(*data), processes)
        running = len(company.others())
        weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
    names = ("failed", "met", "own_lock", "shared_lock")
    seen = {name: company.column(name) for name in names}
    arrived = updates.arrived(before, largest.detach())
    return seen | {
        **updates.seen(),
        "running": running,
        "told": company.told,
        "forks": len(updates.trainers),
        "most": int(company.most[0]),
        "locks": len(company.locks),
        "shared": largest.is_shared(),
        "accuracy": _accuracy(weights, new),
        "arrived": arrived,
        "unlike": updates.unlike,
    }


def _judge_ends(seen, processes, count):
    if seen["forks"] < processes:
        raise Wrong(
            f"train started {seen['forks'] or 'no'} processes, expected {processes}",
            "Each process is an mp.Process with a loop of its own over the data;"
            " `processes` says how many.",
        )
    refuse_unfinished(seen, "who uses the model now finds it half trained")


def _judge_steps(seen, processes, count):
    expected = count // BATCH
    for number, steps in enumerate(seen["backwards"]):
        read = sorted(n for part in seen["samples"][number] for n in part)
        if steps != expected or set(seen["sizes"][number]) != {BATCH}:
            found = (
                f"{steps} batches" if steps <= LONGEST else f"over {LONGEST} batches"
            )
            found += f" of {max(seen['sizes'][number], default=0)}"
            raise Wrong(
                f"process {number} of {processes} trained with {found} samples,"
                f" expected {expected} of {BATCH}",
                why_samples(seen, processes, count),
            )
        if read != list(range(count)):
            raise Wrong(
                f"process {number} of {processes} trained with"
                f" {len({*read} - {-1})} different samples, expected {count}",
                "Each process goes once through all samples: shuffle them, and take"
                " batch after batch.",
            )


def _judge_own(seen, processes, count):
    """What each process must have for itself: a thread, an order of the samples."""
    if max(seen["threads"]) > 1:
        raise Wrong(
            f"each of {processes} processes computes with {max(seen['threads'])}"
            " threads, expected 1",
            "Then the threads of all processes fight for the cores, and more processes"
            " are slower. First line of each process: torch.set_num_threads(1).",
        )
    orders = [tuple(map(tuple, samples)) for samples in seen["samples"]]
    if orders[0] == orders[1]:
        stored = [n for part in orders[0] for n in part] == list(range(count))
        raise Wrong(
            f"processes 0 and 1 of {processes} read the samples in the same order",
            "Nobody shuffles: every process reads the samples as they are stored."
            if stored
            else "A fork copies the state of the random numbers too, so all processes"
            " shuffle alike. Give each one a seed of its own: torch.manual_seed(...).",
        )


def _judge_gradients(seen, processes, count):
    """What the gradients hold, and that they and what follows from them are private."""
    if any(seen["shared_grad"]):
        raise Wrong(
            f"the gradients are in shared memory: {processes} processes add to the same"
            " ones",
            "The model came with gradients, and share_memory() shares these, too. Drop"
            " them, then each backward makes its own: zero_grad() does so before the"
            " first backward, unless it is told set_to_none=False.",
        )
    if any(seen["stale"]):
        raise Wrong(
            f"{max(seen['stale'])} of {count // BATCH} gradients of a process hold"
            " those of earlier batches, too",
            "backward adds to the gradients that are there. Call zero_grad() before"
            " each backward, the first one as well.",
        )
    if any(seen["shared_state"]):
        raise Wrong(
            "the state of the optimizer is in shared memory",
            "Only the parameters are shared. Let each process make an optimizer of its"
            " own: torch.optim.SGD(model.parameters(), lr=0.1).",
        )
    if any(seen["strange"]):
        raise Wrong(
            f"in {max(seen['strange'])} of {count // BATCH} steps backward got another"
            " loss than the mean cross-entropy of the batch",
            "Call backward on cross_entropy(model(images), labels), as it is.",
        )
    if not seen["arrived"]:
        raise Wrong(
            "the weights of `model` are no numbers (nan)",
            "The steps are far too long, or go uphill: take 0.1 times the gradient away"
            " from each weight.",
        )


def _judge_updates(seen, processes, count):
    factors = seen["arrived"]
    total = processes * count // BATCH
    usual = statistics.median(factors)
    uniform = max(abs(factor - usual) for factor in factors) < 0.2 * abs(usual)
    if max(map(abs, factors)) < 0.05:
        raise Wrong(
            f"none of {total} updates of {processes} processes arrived in `model`",
            why_nothing(seen),
        )
    if seen["unlike"]:
        raise Wrong(
            f"the weights moved in another way than {total} steps of SGD move them",
            "It must be SGD: Adam and others divide by what they have seen, each"
            " process by something else.",
        )
    worst = max(factors, key=lambda factor: abs(factor - 1))
    lost = sum(abs(factor) < 0.5 for factor in factors)
    # weights that two write at once are of both, and one update seems to count for more
    overwritten = lost > len(factors) / 4 and min(factors) > -0.2
    far = not overwritten and not -0.2 < worst < 1.2
    if far or uniform and abs(usual - 1) > 0.2:
        raise Wrong(
            f"an update moved the weights {worst:.1f} times as far as SGD with rate"
            f" {baseline.RATE} does",
            why_far(seen, abs(usual * processes - 1) < 0.2),
        )
    if lost:
        raise Wrong(
            f"of {total} updates of {processes} processes {lost} were lost",
            why_lost(seen),
        )
    refuse_one_by_one(seen)
    if not any(seen["met"]):
        raise Wrong(
            f"{processes} processes took {total} steps, never two at the same time",
            "All updates are there, but a lock around the whole step makes everyone"
            " wait, as one process would be. Hogwild takes none.",
        )
    locking = sum(map(any, zip(seen["own_lock"], seen["shared_lock"])))
    if locking:
        raise Wrong(
            f"{locking} of {processes} processes held a lock when they changed the"
            " weights, expected none",
            "All updates are there, but Hogwild takes no lock, not even around"
            " optimizer.step(): a step that now and then meets another one does little"
            " harm, and nobody waits.",
        )


_JUDGES = (_judge_ends, _judge_steps, _judge_own, _judge_gradients, _judge_updates)


def _alone(count):
    """The weights of plain training, as many updates as four processes take."""
    data = baseline.samples(count)
    batches = baseline.batches(data, baseline.shuffled, batch=BATCH, epochs=4)
    return baseline.weights_after(batches)


@torch.no_grad()
def _accuracy(weights, new):
    """The share of right answers among digits that nobody trained with."""
    images, labels = new
    model = baseline.network()
    model.load_state_dict(weights)
    return (model(images).argmax(1) == labels).float().mean().item()
