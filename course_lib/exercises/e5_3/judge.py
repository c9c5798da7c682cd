"""Exercise 5.3, decided: batches that come through a queue, and what is kept."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises.e5_1.judge import counts_of, wrong_type
from course_lib.exercises.e5_3.observe import batches
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many, size

_TEXTS = Texts("5.3")
_ALIVE = 3  # batches at a time
_KINDS = (torch.float32, torch.float64)
_NEAR = 2**-8  # relative: bfloat16 is off by half of this at most
_IMAGE = 64 * 4  # bytes
# bytes for each batch that lists, tensors of one image and labels as numbers take
_ROOM = 1200


def cases(seed: int) -> Iterator[Case]:
    """Yield forty batches, and fifteen; of two of them each lacks a digit."""
    counts, start = ((40, 285), (15, 280)), 0
    if seed:
        numbers = random.Random(seed)
        start = numbers.randrange(100)
        counts = (numbers.randint(20, 45), 265), (numbers.randint(9, 19), 260)
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
    found, kind, numbers = _result(rank["returned"])
    count = len(images)
    if found is None or numbers is None or not found.dim():
        raise _TEXTS.wrong("nothing", returned=shown(rank["returned"]), count=count)
    if found.shape != images.shape:
        clue = {"images": len(found), "shape": tuple(found.shape[1:])}
        raise _TEXTS.wrong("shape", clue=clue, count=count, **clue)
    if _rounded(found, kind, images):
        raise _TEXTS.wrong("rounded", kind=str(kind).removeprefix("torch."))
    wrong = (found != images).flatten(1).any(1).nonzero().flatten().tolist()
    if wrong:
        fill = {"wrong": len(wrong), "count": count, "first": wrong[0]}
        raise _TEXTS.wrong("not the brightest", clue={"images": found}, **fill)
    told, expected = numbers.tolist(), counts.tolist()
    if told != expected:
        fill = {"expected": expected, "sum": sum(told), "labels": sum(expected)}
        raise _TEXTS.wrong("counts", clue={"counts": told}, counts=told, **fill)
    if numbers.dtype != torch.int64:
        raise wrong_type(numbers)


def _result(returned):
    """Images f32[n, ...], of what type they were, counts; None for no such thing."""
    try:
        images, counts = returned
        if isinstance(images, list | tuple):
            parts = [torch.as_tensor(image) for image in images]
            images = torch.stack(parts) if parts else torch.empty(0)
        images = torch.as_tensor(images)
        return images.float(), images.dtype, counts_of(counts)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None, None, None


def _rounded(found, kind, images):
    """Whether they are not what they were, and by no more than a type may change."""
    if torch.equal(found, images):
        return False
    near = torch.allclose(found, images, rtol=_NEAR, atol=_NEAR)
    return near or kind not in _KINDS


def _judge_held(case, rank):
    """The most batches that were held at a time."""
    count, rows = case.given["count"], case.given["rows"]
    fill = rank["held"] | {"count": count, "most": _ALIVE}
    clue = [held > _ALIVE for held in rank["held"].values()]
    if any(clue):
        raise _TEXTS.wrong("held", clue=[*clue, any(rank["left"])], **fill)
    # labels may stay as numbers until the end
    private = rank["private"] - count * (_ROOM + 8 * rows)
    batch = rows * (_IMAGE + 8)
    if private > (_ALIVE + 1) * batch:
        held = min(count, round(private / batch))
        raise _TEXTS.wrong("copied", held=held, private=size(private), **fill)
    return max(rank["held"]["images"], 1)


def _judge_left(case, rank):
    """What is alive after the answer has returned."""
    count, left = case.given["count"], sum(rank["left"])
    if left or rank["open"] > 2:
        files = many(max(0, rank["open"]), "descriptor")
        raise _TEXTS.wrong("left", tensors=many(left, "tensor"), files=files)
    batch = case.given["rows"] * (_IMAGE + 8)
    most = count * (_IMAGE + _ROOM) + batch * 7 // 8
    if rank["kept"] > most:
        raise _TEXTS.wrong("kept", kept=size(rank["kept"]), most=size(most))
