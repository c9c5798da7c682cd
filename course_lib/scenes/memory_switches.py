"""Four switches of a GPT's memory on one GPU: what each saves, and what it costs."""

import itertools

from course_lib.accelerators.gpt_peak import GptStep, arithmetic, fullest
from course_lib.accelerators.memory import KINDS
from course_lib.errors import UsageError
from course_lib.scenes import kind_bars
from course_lib.scenes.arguments import real_number, whole_numbers
from course_lib.scenes.items import Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.text import many, size

_COUNTS, _LINE, _TOP = 32, 18, 102  # y of the bytes below the legend, of the bars
_SOURCE = (
    "computed for the fullest moment of a step: AdamW (fused), gradients set to None"
    " after it, without work space; autocast's copies of weights are activations."
    " Arithmetic is that of products of matrices, beside the start; time depends on"
    " the GPU, too"
)
_MOST = {
    "layers": 128,
    "width": 10**5,
    "heads": 10**4,
    "length": 10**6,
    "batch": 10**6,
    "words": 10**6,
}
_NUMBERS = {"float32": 32, "autocast": 16}
_RECOMPUTE = {"nothing": False, "each block": True}
_ATTENTION = {"scores kept": True, "one kernel": False}
_PARTS = {
    "forward": "at the end of forward",
    "loss": "where backward begins",
    "embeddings": "at the end of backward",
}


def memory_switches(
    *, layers, width, heads, length, batch, capacity, words=96
) -> Scene:
    """Draw what a GPT holds at the fullest moment of a step, by kind, on one GPU.

    A GPT of course_lib.gpt learns with AdamW from `batch` windows of `length` tokens a
    step, of `words` that there are; the GPU has `capacity` bytes. Four sliders: windows
    that go through it at once, float32 or autocast to 16 bits, recomputation of each
    block, attention in one kernel or with its scores kept. A pale bar stays where all
    are off; the last sentence says whether the chosen ones fit, and what they cost.

    Errors: `UsageError` for what is not a whole number from 1, or is absurd, and for a
    width that is no multiple of 4 · heads.
    """
    sizes = {"layers": layers, "width": width, "heads": heads, "length": length}
    sizes |= {"batch": batch, "words": words}
    for name, most in _MOST.items():
        whole_numbers(name, [sizes[name]], most=most)  # one, no list
    real_number("capacity", capacity, least=1)
    if width % (4 * heads):
        raise UsageError(
            f"width cannot be {width} with heads={heads}: each head needs as many"
            " numbers, and one kernel takes 4, 8, 12, …; expected a multiple of"
            f" 4 · heads, {4 * heads}"
        )
    switches = {
        "micro-batch": list(dict.fromkeys(max(1, batch // n) for n in (1, 4, 16, 64))),
        "numbers": list(_NUMBERS),
        "recompute": list(_RECOMPUTE),
        "attention": list(_ATTENTION),
    }

    def plan(microbatch, numbers, recompute, attention):
        how = _NUMBERS[numbers], _RECOMPUTE[recompute], _ATTENTION[attention]
        return GptStep(layers, width, heads, length, batch, microbatch, *how, words)

    start, *others = (plan(*values) for values in itertools.product(*switches.values()))
    figure = _Figure(start, others, capacity)
    return varied(
        lambda **values: figure.moments(plan(*values.values())),
        switches,
        height=_TOP + 2 * kind_bars.ROW + 16,
        source=_SOURCE,
    )


class _Figure:
    """What is drawn: the start above, what was chosen below, against the capacity."""

    def __init__(self, start, others, capacity):
        self.start, self.capacity = start, capacity
        self.begun = fullest(start)
        most = max(fullest(plan).total for plan in (start, *others))
        self.scale = kind_bars.WIDTH / max(most, capacity)

    def moments(self, plan):
        found = fullest(plan)
        for count, title in enumerate(self.titles(plan, found), 1):
            kinds = {kind: found.held[kind] for kind in KINDS[:count]}
            yield Moment(title, self.items(kinds))

    def titles(self, plan, found):
        """Yield a sentence for each kind, the last with what comes of it."""
        held = {kind: size(count) for kind, count in found.held.items()}
        yield f"Parameters, 4 bytes each: {held['parameters']} on the GPU."
        yield _fullest(found)
        yield f"AdamW, 8 bytes for each parameter: {held['optimizer state']}."
        fits = "fit" if found.total <= self.capacity else "do not fit"
        came = f"{size(found.total)} {fits} into {size(self.capacity)}"
        yield f"{_work(plan)}: {came}{self.cost(plan)}."

    def cost(self, plan):
        """`, for 1.23 times the arithmetic`, of that which the start needs."""
        if plan == self.start:
            return ""
        times = f"{arithmetic(plan) / arithmetic(self.start):.2f}"
        if times == "1.00":
            return ", without more arithmetic"
        return f", for {times} times the arithmetic"

    def items(self, kinds):
        yield from kind_bars.legend()
        room, scale = self.capacity, self.scale
        rows = {"start": self.begun.held, "chosen": kinds}
        for number, (name, held) in enumerate(rows.items()):
            yield from _row(name, _COUNTS + number * _LINE, held)
            y = _TOP + number * kind_bars.ROW
            yield label(name, (0, y + kind_bars.HIGH / 2), name)
            pale = name == "start"
            how = {"scale": scale, "said": name, "pale": pale, "texts": False}
            yield from kind_bars.bar(name, y, held, **how)
            count = sum(held.values())
            yield kind_bars.total(name, y, count, capacity=room, scale=scale)
        yield from kind_bars.limit(room, top=_TOP, rows=len(rows), scale=scale)


def _row(name, y, held):
    """Bytes below the names of the kinds."""
    yield label(f"{name} row", (0, y), name)
    for kind, x in kind_bars.places().items():
        if kind in held:
            yield label(f"{name} {kind} count", (x + 20, y), size(held[kind]))


def _fullest(found):
    """Say where a step is fullest, and which gradients are there then."""
    number = found.part.partition(" ")[2]
    part = _PARTS.get(found.part, f"in backward through block {number}")
    count = found.held["gradients"]
    if found.again:
        new = " and a new one" if count > found.held["parameters"] else ""
        there = f"gradients of earlier micro-batches{new} are there, {size(count)}"
    elif count:
        there = f"gradients of {size(count)} are there by then"
    else:
        there = "no gradients are there yet"
    return f"A step is fullest {part}: {there}."


def _work(plan):
    """`4 micro-batches of 64 windows, autocast, each block recomputed`."""
    windows, turns = plan.microbatch, plan.turns
    about = "up to " if turns * windows != plan.batch else ""
    words = [f"{many(turns, 'micro-batch')} of {about}{many(windows, 'window')}"]
    words += ["autocast"] if plan.bits == 16 else []
    words += ["each block recomputed"] if plan.recompute else []
    words += [] if plan.plain else ["attention in one kernel"]
    return ", ".join(words)
