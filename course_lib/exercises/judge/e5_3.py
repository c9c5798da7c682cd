"""Exercise 5.3, decided: batches that come through a queue, and what is kept."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e5_1 import wrong_type
from course_lib.exercises.observe.e5_3 import batches, observe
from course_lib.exercises.values import shown
from course_lib.text import many, size

_ALIVE = 3  # batches at a time
_IMAGE = 64 * 4  # bytes
# bytes for each batch that lists, tensors of one image and labels as numbers take
_ROOM = 1200


def cases(seed: int) -> Iterator[Case]:
    """Forty batches, and fifteen; of two of them each lacks a digit."""
    counts, start = ((40, 250), (15, 180)), 0
    if seed:
        numbers = random.Random(seed)
        start = numbers.randrange(100)
        counts = (numbers.randint(20, 45), 230), (numbers.randint(9, 19), 200)
    for count, rows in counts:
        given = {"count": count, "start": start, "rows": rows}
        parts = batches(**given)
        best = [images[images.sum((1, 2, 3)).argmax()] for images, _ in parts]
        every = torch.cat([labels for _, labels in parts])
        expected = torch.stack(best), torch.bincount(every, minlength=10)
        yield Case(given, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare the results, then what was held at a time, then what is left."""
    [rank] = seen
    _judge_result(case, rank)
    held = _judge_held(case, rank)
    _judge_left(case, rank)
    return f"{held} of {case.given['count']}"


def _judge_result(case, rank):
    images, counts = case.expected
    found, numbers = _result(rank["returned"])
    count = len(images)
    if found is None or numbers is None:
        raise Wrong(
            f"digest returned {shown(rank['returned'])}, expected a list of {count}"
            " images and i64[10]",
            "Return both, as the leaking function does: best, counts.",
        )
    if found.shape != images.shape:
        raise Wrong(
            f"digest returned {len(found)} images of {tuple(found.shape[1:])}, expected"
            f" {count} of (1, 8, 8)",
            "One image of each batch, in the order in which they come: take `count`"
            " batches. `queue.empty()` is true, too, while the next one is under way."
            if len(found) != count
            else "images[i] is an image, as it is. Its number i alone is none, and a"
            " slice images[i : i + 1] has one dimension more.",
            clue={"images": len(found) / count, "shape": list(found.shape[1:])},
        )
    wrong = [n for n in range(count) if not torch.equal(found[n], images[n])]
    if wrong:
        last = all(torch.equal(image, images[-1]) for image in found)
        raise Wrong(
            f"{len(wrong)} of {count} images are not the brightest ones of their"
            f" batches, the first is that of batch {wrong[0]}",
            "All are the image of the last batch: one buffer was filled again and"
            " again. Each image needs a copy of its own."
            if last
            else "The brightest image has the largest sum over all of its pixels:"
            " images.sum((1, 2, 3)).argmax().",
        )
    if numbers.tolist() != counts.tolist():
        raise Wrong(
            f"the counts are {numbers.tolist()!s:.60}, expected {counts.tolist()}",
            f"They add up to {sum(numbers.tolist()):g}, and the batches have"
            f" {int(counts.sum())} labels. Add the labels of each batch to the counts,"
            " of all ten digits, also of those that a batch lacks:"
            " bincount(labels, minlength=10).",
            clue={"counts": numbers.tolist()},
        )
    if numbers.dtype != torch.int64:
        raise wrong_type(numbers)


def _result(returned):
    """Images f32[n, ...] and counts, or None for what is no such thing."""
    if not isinstance(returned, list | tuple) or len(returned) != 2:
        return None, None
    images, counts = returned
    try:
        if isinstance(images, list | tuple):
            parts = [torch.as_tensor(image) for image in images]
            images = torch.stack(parts) if parts else torch.empty(0)
        images, counts = torch.as_tensor(images), torch.as_tensor(counts)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None, None
    flat = counts.dim() == 1 and images.dim() > 0
    return (images.float(), counts) if flat else (None, None)


def _judge_held(case, rank):
    """The most batches that were held at a time."""
    count, rows = case.given["count"], case.given["rows"]
    batch = rows * (_IMAGE + 8)
    images, labels = (max(rank[name], default=0) for name in ("images", "labels"))
    if max(images, labels) > _ALIVE:
        raise Wrong(
            f"the images of {images} and the labels of {labels} of {count} batches were"
            " in shared memory at a time, each tensor with a descriptor; expected at"
            f" most {_ALIVE}",
            _why_held(rank, count),
        )
    # labels may stay as numbers until the end
    private = max(rank["private"], default=0) - count * (_ROOM + 8 * rows)
    if private > (_ALIVE + 1) * batch:
        held = min(count, round(private / batch))
        raise Wrong(
            f"about {held} of {count} batches were held at a time as private copies"
            f" ({size(private)}), expected at most {_ALIVE}",
            "Shared memory is free, but a copy of each whole batch lives on in your"
            " own: a view keeps all of the copy that it was taken from. Copy the one"
            " image, not the batch (deepcopy of a view copies all the memory under"
            " it).",
        )
    return max(images, 1)


def _why_held(rank, count):
    """The hint for too many batches in shared memory at a time."""
    images, labels = (max(rank[name], default=0) for name in ("images", "labels"))
    if not any(rank["left"]) and images > _ALIVE and labels > _ALIVE:
        return (
            "All batches are received before the first is let go. Take one, keep a"
            " copy of what you need, and let it go before the next one comes."
            if images >= count - 2
            else f"About {images} batches are received before the first is let go."
            " Take one, keep a copy of what you need, and let it go before the next."
        )
    if images <= _ALIVE:
        return (
            "The images are free, but the labels of each batch are kept until the end."
            " They are small, and still hold a descriptor each. Count them at once."
        )
    if labels <= _ALIVE:
        return (
            "The labels are free, but the images are not: images[i] is a view, and it"
            " keeps the memory of its whole batch alive. Only a copy lets go: clone(),"
            " right when it is taken."
        )
    other = rank["strategy"] != "file_descriptor"
    sent = "The strategy is chosen by who sends, and none frees what is held. "
    return (
        f"{sent * other}Two things live on: images[i] is a view, which keeps its whole"
        " batch alive, and the labels of each batch are kept as they came. Neither del"
        " nor gc.collect() helps while somebody holds them."
    )


def _judge_left(case, rank):
    """What is alive after the answer has returned."""
    count, left = case.given["count"], sum(rank["left"])
    if left or rank["open"] > 2:
        hint = "Something outside of digest, a global list perhaps, keeps a batch."
        if rank["shared"]:
            hint = (
                "What digest returned still lies in shared memory. Every image of it"
                " must be a copy, the last one too."
            )
        elif not left:
            hint = "Something that digest opened is still open: close it."
        raise Wrong(
            f"after digest {many(left, 'tensor')} in shared memory and"
            f" {many(max(0, rank['open']), 'descriptor')} are left, expected none",
            hint,
        )
    batch = case.given["rows"] * (_IMAGE + 8)
    most = count * (_IMAGE + _ROOM) + batch * 3 // 4
    if rank["kept"] > most:
        raise Wrong(
            f"after digest {size(rank['kept'])} are still in private memory, expected"
            f" at most {size(most)}",
            "A private copy of a batch lives on: a global name or an attribute keeps"
            " it, or the memory under an image that was returned.",
        )


def failed(case: Case, wrong) -> None:
    """Add what follows from an answer that waits, or does not."""
    if not wrong.hint and "Stuck" in str(wrong):
        wrong.hint = (
            "The queue brings `count` batches and no more: the next get() waits for"
            " ever."
        )
    raise wrong


EXERCISE = Exercise(
    "5.3",
    observe,
    cases,
    judge,
    proof="the same results, at most {} batches are held at a time, also as private"
    " copies; none afterwards",
    failed=failed,
)
