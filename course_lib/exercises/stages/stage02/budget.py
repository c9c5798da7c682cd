"""Exercise 2.4: the largest micro-batch that a device holds."""

import gc

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import gap, number_of, state_of
from course_lib.exercises.stages.stage02.observer import one_gpu
from course_lib.text import short, size

COUNT, PASSES = 200, 40  # images, and forward passes that a search may take
# the micro-batch that shall just fit: no power of 2; all images for the last
_WANTED = (90, 37, COUNT)


@baseline.settled()
def check_budget(attempt: Attempt) -> str:
    """Let the answer search on three devices; compare, and look at what it leaves."""
    data = baseline.samples(COUNT)
    passes = []
    for wanted in _WANTED:
        [seen] = attempt(_search, data, wanted, world_size=1, why=_why_failed)
        _judge(seen)
        _refuse_left(seen)
        passes.append(seen["passes"])
        if passes[-1] > PASSES:
            raise Wrong(
                f"{seen['found']:.0f} is right, but it took {passes[-1]} forward"
                f" passes to find it, expected at most {PASSES}",
                "Double the size until it does not fit, then halve the interval"
                " between what fits and what does not: 8 steps for 256 sizes.",
            )
    return (
        f"{', '.join(map(str, _WANTED))} on three devices, in at most {max(passes)}"
        " forward passes, and nothing left behind"
    )


def network():
    """A network whose gradients need as much memory as four images do."""
    with baseline.seeded():
        # backward comes last to the large first layer, long after the peak
        layers = [
            nn.Flatten(),
            nn.Linear(64, 256),
            nn.ReLU(),
            nn.Unflatten(1, (4, 8, 8)),
        ]
        layers += [nn.Conv2d(4, 16, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        layers += [nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(*layers)


def one_step(model, data, count) -> None:
    """One micro-batch of `count` images, as the exercise gives it."""
    device = next(model.parameters()).device
    images, labels = (part[:count].to(device) for part in data)
    cross_entropy(model(images), labels).backward()


def two_steps(model, data, count) -> None:
    """Two micro-batches, the second with gradients held: what has to fit."""
    for _ in range(2):
        one_step(model, data, count)


def _search(rank, world_size, answer, /, *given):
    data, wanted = given
    memory = _between(data, wanted)
    device, gpu = one_gpu(memory)
    expected = _largest(network().to(device), data)
    one = _largest(network().to(device), data, steps=one_step)
    model = network().to(device)
    gc.collect()  # nothing of the searches above may take room from the answer
    start, before = state_of(model), gpu.memory_allocated(device)
    tried = []
    # before a pass, for one that runs out of memory never gets to its end
    model.register_forward_pre_hook(lambda _, given: tried.extend(map(len, given)))
    found = answer(model, *data)
    said, found = short(found), number_of(found)
    gc.collect()
    left = gpu.memory_allocated(device) - before
    grads = any(p.grad is not None for p in model.parameters())
    seen = {"found": found, "said": said, "expected": expected, "one": one}
    seen |= {"left": left, "grads": grads, "passes": len(tried), "tried": set(tried)}
    seen |= {"moved": gap(start, state_of(model)) > 0}
    return seen | {"memory": memory}


def _between(data, wanted):
    """Bytes that hold `wanted` images and half of one more, however it is written."""
    device, gpu = one_gpu()
    peaks = []
    for count in (wanted, min(wanted + 1, COUNT)):
        model = network().to(device)
        gpu.reset_peak_memory_stats(device)
        two_steps(model, data, count)
        peaks.append(gpu.max_memory_allocated(device))
        del model
    spare = 0 if peaks[1] > peaks[0] else peaks[0] // 4
    return sum(peaks) // 2 + spare


def _largest(model, data, steps=two_steps):
    """The largest micro-batch that fits, by bisection."""
    fits, fails = 0, COUNT + 1
    while fails - fits > 1:
        count = (fits + fails) // 2
        if _fits(model, data, count, steps=steps):
            fits = count
        else:
            fails = count
    return fits


def _fits(model, data, count, *, steps):
    fits = True
    try:
        steps(model, data, count)
    except torch.OutOfMemoryError:
        fits = False
    model.zero_grad()
    return fits


def _judge(seen):
    found, expected = seen["found"], seen["expected"]
    where = f"on a device of {size(seen['memory'])}"
    if found is None or not found.is_integer():
        raise Wrong(
            f"{where} the answer is {seen['said']}, expected a whole number",
            "Return the number of images of the largest micro-batch that fits.",
        )
    if found == expected:
        return
    state = (
        f"{found:.0f} images do not fit"
        if found > expected
        else f"more than {found:.0f} images fit"
    )
    more = f" (there are only {COUNT})" if found > COUNT else ""
    raise Wrong(f"{where} {state}{more}, expected {expected}", _why(seen))


def _why(seen):
    found, expected = seen["found"], seen["expected"]
    if found > COUNT:
        return "The largest micro-batch can be all images, but not more than there are."
    if found == expected + 1:
        return "One too many: this is the first size that fails. Return the one before."
    if found == expected - 1:
        return "One too few: the next size fits, too. When does your search stop?"
    if found == seen["one"]:
        return (
            "One micro-batch of this size fits, but not a second one: then the"
            " gradients of the first are held, too. Try two after each other."
        )
    if found == COUNT:
        return (
            "Is every try real, forward and backward on the device? Catch"
            " torch.OutOfMemoryError around both."
        )
    if found < expected:
        return _why_too_few(int(found), expected, seen["tried"])
    return (
        "A try is forward and backward, twice, with gradients kept in between: each of"
        " these takes memory."
    )


def _why_too_few(found, expected, tried):
    """The hint for a search that ends below the largest size, by what it tried."""
    in_pairs = all(count % 2 == 0 for count in tried)
    if in_pairs and found not in tried and 2 * found in tried:
        return (
            f"You tried {2 * found} images at once. Two micro-batches of {found} need"
            " less: the first gives back its activations before the second starts."
        )
    if tried.isdisjoint(range(found + 1, expected + 1)):
        failed = min((n for n in tried if n > expected), default=COUNT)
        return (
            f"No size between {found} and {failed} was tried. Halve the interval until"
            " its ends are neighbours."
        )
    return (
        "Sizes failed that do fit, so something of an earlier try took up memory. Keep"
        " no error, tensor or copy of the model. Leave the `except` block before the"
        " next try: inside it, the failed one is still held."
    )


def _refuse_left(seen):
    if seen["moved"]:
        raise Wrong(
            f"{seen['found']:.0f} is right, but the weights of the model have changed",
            "A try must not train: no optimizer step.",
        )
    if seen["grads"]:
        raise Wrong(
            f"{seen['found']:.0f} is right, but the gradients of a try are still in the"
            " model",
            "The next training would start with them. Call model.zero_grad() after"
            " each try, also after one that failed.",
        )
    if seen["left"] > 0:
        raise Wrong(
            f"{seen['found']:.0f} is right, but {size(seen['left'])} more than before"
            " are allocated",
            "Something of a try is still alive: a tensor on the device in a global"
            " name or in the model.",
        )


def _why_failed(error):
    if error.kind == "late":
        return (
            "Does the search come to an end? If low + 1 == high, then (low + high) // 2"
            " is low again."
        )
    if error.kind == "OutOfMemoryError":
        return (
            "Here this error is what you are looking for. Catch it, around forward and"
            " backward: `except torch.OutOfMemoryError`."
        )
    if "zero_grad" in str(error):
        return "zero_grad is a method of the model: model.zero_grad()."
    return None
