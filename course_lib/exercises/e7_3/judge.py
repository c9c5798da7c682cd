"""Exercise 7.3, decided: a parameter server that bounds how far workers get ahead.

Each gradient of each worker changes a weight of its own, so that weights tell which
gradients are in them.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.e7_3.observe import ANSWERED, FREED, TAKEN, posted_file
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.stacks import is_learners, source
from course_lib.text import many

_TEXTS = Texts("7.3")
_RATE = 0.1
# workers, steps, bound: the last one never binds
_SIZES = ((3, 5, 2), (2, 4, 0), (4, 3, 1), (2, 3, 7))
# in which a server may stand; one that broadcasts is about to send
_COLLECTIVES = {"barrier", "monitored_barrier", "all_reduce", "reduce", "gather"}
_COLLECTIVES |= {"all_gather", "all_gather_object", "scatter"}
_WAITS = {TAKEN: "gradient", ANSWERED: "answer", FREED: "late answer"}


def cases(seed: int) -> Iterator[Case]:
    """Yield launches with another worker in front, and at the end, time after time."""
    numbers = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        for number, (workers, steps, bound) in enumerate(_SIZES):
            if seed:
                workers, steps = workers + numbers.randrange(2), numbers.randint(3, 6)
            order = torch.Generator().manual_seed(seed + number)
            count = workers * steps
            gradients = torch.randint(1, 10, (count,), generator=order).float().diag()
            given = {
                "start": torch.randint(-9, 10, (count,), generator=order).float(),
                "gradients": [None, *gradients.view(workers, steps, count)],
                "turns": list(_turns(workers, steps, bound=bound, numbers=numbers)),
                "file": str(Path(folder) / str(number)),
                "steps": steps,
                "bound": bound,
            }
            yield Case(given, 1 + workers)


def _turns(workers, steps, *, bound, numbers):
    """Whose turn it is, and whom a right server answers in it.

    Who is in front goes on until it must wait, then the next one, and so on; after some
    turns they change places.
    """
    done, waiting, order = dict.fromkeys(range(1, 1 + workers), 0), set(), []
    for number in range(workers * steps):
        if number % (workers * (bound + 1) + 1) == 0:
            order = numbers.sample(list(done), workers)
        free = [one for one in order if one not in waiting and done[one] < steps]
        done[free[0]] += 1
        waiting.add(free[0])
        slowest = min(done.values())
        due = sorted(one for one in waiting if done[one] - slowest <= bound)
        waiting -= {*due}
        yield free[0], due


def judge(case: Case, seen) -> str:
    """Look at what was in the weights of each answer, then in those at the end."""
    given, workers = case.given, case.world_size - 1
    done, sent = [0] * case.world_size, seen[0]["sent"]
    turns = enumerate(given["turns"], start=1)
    for number, worker in ((n, one) for n, (_, due) in turns for one in due):
        where = {"worker": worker, "step": done[worker] + 1, "bound": given["bound"]}
        answers = seen[worker]["answers"][done[worker] :]
        if not answers:
            raise _TEXTS.wrong("ended early", workers=workers, **where)
        applied = _applied(answers[0], given)
        if applied is None:
            raise _TEXTS.wrong("other answer", **where)
        arrived = [count for target, count in sent if target == worker][done[worker] :]
        in_time = bool(arrived) and arrived[0] >= number
        _judge_answer(applied.view(workers, -1), where, in_time=in_time)
        done[worker] += 1
    _judge_end(seen[0]["returned"], given)
    return f"{many(workers, 'worker')} with a bound of {given['bound']}"


def _applied(weights, given):
    """How often each gradient is in weights, f32[gradients]; None for no weights."""
    start = given["start"]
    if not torch.is_tensor(weights) or weights.shape != start.shape:
        return None
    if weights.is_complex() or not weights.isfinite().all():
        return None
    sizes = torch.stack(given["gradients"][1:]).sum((0, 1))
    return (start - weights.float()) / (_RATE * sizes)


def _judge_answer(applied, where, *, in_time):
    """Refuse an answer that comes too early, or with other weights."""
    worker, step = where["worker"], where["step"]
    whole = applied.round().clamp(0, 1)
    if (off := (applied - whole).abs() > 0.01).any():
        clue = {"times": applied[off][0].item()}
        raise _TEXTS.wrong("other update", clue=clue, **clue, **where)
    counts = whole.int().sum(1).tolist()
    if counts[worker - 1] != step:
        raise _TEXTS.wrong("own missing", found=counts[worker - 1], **where)
    slowest = min(counts)
    if step - slowest > where["bound"]:
        fill = {"other": 1 + counts.index(slowest), "slowest": slowest}
        raise _TEXTS.wrong("old" if in_time else "too early", **fill, **where)


def _judge_end(returned, given):
    applied = _applied(returned, given)
    if applied is None:
        raise _TEXTS.wrong("no weights", returned=shown(returned))
    if (off := (applied - 1).abs() > 0.01).any():
        fill = {"count": len(applied), "times": applied[off][0].item()}
        clue = {"times": fill["times"], "off": int(off.sum())}
        raise _TEXTS.wrong("other end", clue=clue, off=int(off.sum()), **fill)


def _posted(given):
    """To whom the server has begun to send, in order."""
    file = posted_file(given)
    return list(map(int, file.read_text().split())) if file.exists() else []


def failed(case: Case, wrong: Failed) -> str:
    """Say which worker waits in vain, and for what."""
    error, given = wrong.error, case.given
    file, frames = Path(given["file"]), error.where.get(0, ())
    if error.kind not in (*STUCK, "lost") or not file.exists():
        raise wrong
    number, worker, waits = map(int, file.read_text().split())
    turns = [one for one, _ in given["turns"][: number + (waits != FREED)]]
    done = [turns.count(one) for one in range(1, case.world_size)]
    step, what = turns.count(worker), _WAITS[waits]
    fill = {"worker": worker, "step": step, "bound": given["bound"]}
    fill |= {"ahead": step - min(done), "workers": len(done)}
    if waits == FREED and step == given["steps"]:
        what = "last answer"
    functions = {frame.function for frame in frames}
    if calls := sorted(_COLLECTIVES & functions):
        what, fill["call"] = "collective", calls[0]
    elif error.kind == "lost" or error.where.keys() <= {0}:
        what = "goes on"
    elif {"send", "broadcast"} & functions:
        what = "elsewhere"
    elif waits != TAKEN and _posted(given).count(worker) >= step:
        what = "not waited for"
    refused = _TEXTS.wrong(what, **fill)
    own = list(filter(is_learners, frames))
    refused.lines = [line for frame in own[-1:] for line in ("", *source(frame))]
    raise refused from None
