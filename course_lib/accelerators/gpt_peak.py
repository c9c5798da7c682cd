"""The fullest moment of a step of a small GPT (course_lib/gpt.py), and its arithmetic.

A step is walked through, tensor by tensor, as PyTorch 2.15 takes and frees them: with
AdamW(fused=True), whose own step needs nothing more, gradients that are None before the
first micro-batch, and of the codes only those of the micro-batch on the GPU. Left out
are single numbers and 16-bit copies of biases. Bytes are held against virtual GPUs, and
operations against torch.utils.flop_counter, in tests/test_gpt_peak.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from course_lib.accelerators.memory import KINDS

_PARAMETERS, _GRADIENTS, _STATE, _ACTIVATIONS = KINDS
# of each Linear of a block: numbers that go in and come out, in widths
_SHAPES = {"qkv": (1, 3), "out": (1, 1), "up": (1, 4), "down": (4, 1)}


class GptStep(NamedTuple):
    """How a GPT is trained on one GPU: `batch` windows of `length` tokens a step.

    `microbatch` is the windows that go through it at once; `bits` is 32 for float32, 16
    for autocast. `recompute`: backward runs each block's forward again. `plain`:
    attention by single operators, which keeps its weights (SDPBackend.MATH).
    """

    layers: int
    width: int
    heads: int
    length: int
    batch: int
    microbatch: int
    bits: int = 32
    recompute: bool = False
    plain: bool = False
    words: int = 96

    @property
    def turns(self) -> int:
        """Return micro-batches of a step."""
        return math.ceil(self.batch / self.microbatch)

    @property
    def parameters(self) -> int:
        """Return how many parameters there are; head and tokens share a table."""
        width = self.width
        linears = sum(a * b * width**2 + b * width for a, b in _SHAPES.values())
        block = linears + 4 * width
        return self.layers * block + (self.words + self.length + 2) * width


class Fullest(NamedTuple):
    """Bytes `held` by kind at the fullest moment, and in which part of a step that is.

    `again` is whether gradients of an earlier micro-batch lie there.
    """

    held: dict[str, int]
    part: str
    again: bool

    @property
    def total(self) -> int:
        """Return the bytes that are held."""
        return sum(self.held.values())


def fullest(plan: GptStep) -> Fullest:
    """Return the fullest moment of a step of which the optimizer has its state."""
    turns = [_Turn(plan, min(plan.microbatch, plan.batch), again=False)]
    if plan.turns > 1:
        # the second one is the largest that finds gradients
        rest = min(plan.microbatch, plan.batch - plan.microbatch)
        turns.append(_Turn(plan, rest, again=True))
    return max((turn.walk() for turn in turns), key=lambda found: found.total)


def arithmetic(plan: GptStep) -> int:
    """Return the operations of matrix products for a token, forward and backward.

    Without a mask's savings. A recomputed block ends before its last product, whose
    result nobody needs. Attention in one kernel computes its scores again in backward.
    """
    square, scores = 2 * plan.width**2, 2 * plan.length * plan.width
    head = 2 * plan.words * plan.width
    forward = 12 * square + 2 * scores
    backward = 24 * square + (4 if plan.plain else 5) * scores
    again = forward - 4 * square if plan.recompute else 0
    return plan.layers * (forward + backward + again) + 3 * head


class _Turn:
    """A micro-batch of `windows`, walked through; `again`: gradients are there."""

    def __init__(self, plan, windows, *, again):
        self.plan, self.again = plan, again
        tokens = windows * plan.length
        # activations of the width, in float32 and in bits of a product
        self.stream, self.one = (n * tokens * plan.width for n in (4, plan.bits // 8))
        self.pairs = 4 * windows * plan.heads * plan.length**2
        self.loss = tokens * plan.words  # numbers
        self.tokens, self.half = tokens, plan.bits == 16
        # of one window or head the plain products read queries and keys as they lie
        self.single = windows == 1 or plan.heads == 1
        self.keeps = True  # what forward made is kept for backward
        count, self.held = 4 * plan.parameters, {}
        self.sums = dict(zip(KINDS, (count, count if again else 0, 2 * count, 0)))
        self.part, self.most, self.found = "forward", 0, Fullest({}, "forward", again)

    def walk(self):
        """Return the fullest moment of it."""
        plan = self.plan
        self.take("codes", 16 * self.tokens + 8 * plan.length)
        self.forward()
        self.part = "loss"
        self.head_backward()
        for block in reversed(range(plan.layers)):
            self.part = f"block {block}"
            self.block_backward(block)
        self.part = "embeddings"
        self.embeddings_backward()
        return self.found

    # --- the account

    def take(self, name, count, kind=_ACTIVATIONS):
        self.held[name] = kind, count
        self.sums[kind] += count
        total = sum(self.sums.values())
        if total > self.most:
            self.most = total
            self.found = Fullest(dict(self.sums), self.part, self.again)

    def drop(self, *names):
        for name in names:
            kind, count = self.held.pop(name)
            self.sums[kind] -= count

    def gradient(self, name, count):
        """A gradient of float32 comes; where one is, it is added to that and goes."""
        self.take(name, 4 * count, _GRADIENTS)
        if self.again:
            self.drop(name)

    # --- forward

    def forward(self):
        plan = self.plan
        self.take((0, "input"), self.stream)
        self.keeps = not plan.recompute
        for block in range(plan.layers):
            self.block_forward(block)
            self.down_forward(block)
            if plan.recompute:
                self.forget(block)
        self.keeps = True
        end = plan.layers
        self.norm_forward(end, "last norm")
        self.cast(end, "head", plan.words * plan.width)
        self.take("logits", plan.bits // 8 * self.loss)
        self.take("logarithms", plan.bits // 8 * self.loss)
        if self.half:
            self.drop((end, "raw last norm"))
            self.take("wide logarithms", 4 * self.loss)
            if plan.recompute:  # autocast kept the copies until here
                for block in range(plan.layers):
                    self.drop(*((block, f"cast {name}") for name in _SHAPES))
        self.drop("logits")

    def block_forward(self, block):
        """Go through a block, but for its last product, at which recomputing ends."""
        self.norm_forward(block, "first norm")
        self.linear_forward(block, "qkv", "qkv")
        if self.half:
            self.used(block, "first norm")
        (self.plain_forward if self.plan.plain else self.kernel_forward)(block)
        self.linear_forward(block, "out", "branch")
        self.used(block, "found")
        self.take((block, "middle"), self.stream)
        self.drop((block, "branch"))
        self.attention_ends(block)
        self.norm_forward(block, "second norm")
        self.linear_forward(block, "up", "up")
        if self.half:
            self.used(block, "second norm")
        self.take((block, "gelu"), 4 * self.one)
        self.used(block, "up")
        self.cast(block, "down", 4 * self.plan.width**2)

    def used(self, block, *names):
        """Drop what was used, unless backward needs it."""
        if not self.keeps:
            self.drop(*((block, name) for name in names))

    def attention_ends(self, block):
        """Drop what the method's names held, unless backward needs it."""
        if self.half:
            self.drop((block, "raw first norm"))
        else:
            self.used(block, "first norm")
        if not self.plan.plain:
            return self.used(block, "qkv")
        if self.single and not self.half:
            # the values were not copied
            self.held[block, "values"] = self.held.pop((block, "qkv"))
        else:
            self.drop((block, "qkv"))
        self.used(block, "values", "weights")

    def down_forward(self, block):
        self.take((block, "branch"), self.one)
        if self.half:
            self.drop((block, "raw second norm"))
        self.take((block + 1, "input"), self.stream)
        self.drop((block, "branch"))

    def forget(self, block):
        """Drop what a recomputed block does not keep: all but its input and copies."""
        names = [name for name in self.held if name[0] == block]
        kept = "input", *(f"cast {name}" for name in _SHAPES)
        self.drop(*(name for name in names if name[1] not in kept))

    def norm_forward(self, block, name):
        self.take((block, f"sums {name}"), 8 * self.tokens)
        if self.half:  # norms are float32
            self.take((block, f"raw {name}"), self.stream)
        self.take((block, name), self.one)

    def cast(self, block, name, count):
        # autocast keeps a copy until its block ends: forward casts once
        if self.half and (block, f"cast {name}") not in self.held:
            self.take((block, f"cast {name}"), 2 * count)

    def linear_forward(self, block, name, result):
        into, out = _SHAPES[name]
        self.cast(block, name, into * out * self.plan.width**2)
        self.take((block, result), out * self.one)

    def kernel_forward(self, block):
        self.take((block, "found"), self.one)
        self.take((block, "sums"), 4 * self.tokens * self.plan.heads)

    def plain_forward(self, block):
        if self.half:  # plain attention is float32
            self.take("wide", 3 * self.stream)
        self.take("scaled queries", self.stream)
        self.take("mask", 4 * self.plan.length**2)
        self.take("scaled keys", self.stream)
        if self.single:
            self.drop("scaled queries", "scaled keys")
        self.take((block, "queries, keys"), 2 * self.stream)
        self.take("scores", self.pairs)
        if not self.single:
            self.drop("scaled queries")
        self.used(block, "queries, keys")
        self.take("masked", self.pairs)
        self.drop("scores")
        self.take((block, "weights"), self.pairs)
        self.drop("masked")
        self.plain_result(block)

    def plain_result(self, block):
        if self.half:
            self.take("cast weights", self.pairs // 2)
        if not self.single:
            self.take((block, "values"), self.stream)
        self.take("heads", self.stream)
        if self.half:
            self.take("cast heads", self.one)
            self.drop("cast weights", "wide", "cast heads")
            if self.single:
                self.take((block, "values"), self.stream)
        self.drop("mask", *([] if self.single else ["scaled keys"]))
        self.take((block, "found"), self.one)
        self.drop("heads")

    # --- backward: "above" is the gradient of the stream

    def head_backward(self):
        plan, end = self.plan, self.plan.layers
        self.take("slope", 4 * self.loss)
        if self.half:
            self.drop("wide logarithms")
            self.take("cast slope", 2 * self.loss)
            self.drop("slope")
            self.take("logits' slope", 2 * self.loss)
            self.drop("logarithms", "cast slope")
        else:
            self.take("logits' slope", 4 * self.loss)
            self.drop("slope", "logarithms")
        table = plan.words * plan.width
        if self.half:
            self.take("half", 2 * table, _GRADIENTS)
        else:
            self.take("head", 4 * table, _GRADIENTS)
        self.take("below", self.one)
        self.drop("logits' slope", (end, "last norm"))
        if self.half:
            self.drop((end, "cast head"))
            self.take("head", 4 * table, _GRADIENTS)
            self.drop("half")
        self.norm_backward(end, "last norm")
        self.drop((end, "input"))
        self.held["above"] = self.held.pop("norm's slope")

    def block_backward(self, block):
        if self.half:
            self.take("slope", self.one)
        if self.plan.recompute:
            self.block_forward(block)
            if self.half:
                self.drop((block, "raw second norm"))
        self.linear_backward(block, "down", "gelu")
        self.take("slope", 4 * self.one)
        self.drop("below", (block, "up"))
        self.linear_backward(block, "up", "second norm")
        self.add_up(block, "second norm", "middle")
        if self.half:
            self.take("slope", self.one)
        # one kernel needs what it found, too
        self.linear_backward(block, "out", "found" if self.plan.plain else None)
        (self.plain_backward if self.plan.plain else self.kernel_backward)(block)
        self.linear_backward(block, "qkv", "first norm")
        self.add_up(block, "first norm", "input")

    def linear_backward(self, block, name, saved):
        """From "slope", where there is a copy of it, to "below"."""
        into, out = _SHAPES[name]
        count = into * out * self.plan.width**2
        self.take("below", into * self.one)
        bias = out * self.plan.width
        names: list = [(block, saved)] if saved else []
        if "slope" in self.held:
            names.append("slope")
        if self.half:
            self.take("half", 2 * (count + bias), _GRADIENTS)
            self.drop(*names, (block, f"cast {name}"))
            self.gradient((block, f"gradient {name}"), count + bias)
            self.drop("half")
        else:
            self.gradient((block, f"gradient {name}"), count + bias)
            self.drop(*names)

    def norm_backward(self, block, name):
        if self.half:
            self.take("wide slope", self.stream)
            self.drop("below")
            self.held["below"] = self.held.pop("wide slope")
        self.take("norm's slope", self.stream)
        self.gradient((block, f"gradient {name}"), 2 * self.plan.width)
        self.drop("below", (block, f"sums {name}"))

    def add_up(self, block, norm, saved):
        """The gradient through a norm is added to that of the stream."""
        self.norm_backward(block, norm)
        self.drop((block, saved))
        self.take("sum", self.stream)
        self.drop("above", "norm's slope")
        self.held["above"] = self.held.pop("sum")

    def kernel_backward(self, block):
        self.take("slopes", 3 * self.one)
        self.drop("below", *((block, name) for name in ("qkv", "found", "sums")))
        self.join()

    def plain_backward(self, block):
        self.take("heads", self.stream)
        self.drop("below")
        self.take("slopes", self.stream)  # of the values
        self.take("weights' slope", self.pairs)
        self.drop("heads", (block, "values"))
        self.take("scores' slope", self.pairs)
        self.drop("weights' slope", (block, "weights"))
        self.take("keys' and queries' slope", 2 * self.stream)
        self.drop("scores' slope", (block, "queries, keys"))
        self.take("scaled", self.stream)
        self.drop("scaled", "keys' and queries' slope", "slopes")
        self.take("slopes", 3 * self.one)
        self.join()

    def join(self):
        """Three gradients become one tensor, then one whose rows are tokens."""
        self.take("joined", 3 * self.one)
        self.drop("slopes")
        self.take("slope", 3 * self.one)
        self.drop("joined")

    def embeddings_backward(self):
        plan = self.plan
        places, table = plan.length * plan.width, plan.words * plan.width
        self.take("places", 4 * places)
        self.gradient("gradient places", places)
        self.drop("places")
        self.take("tokens", 4 * table, _GRADIENTS)
        self.drop("above")
        self.gradient("gradient tokens", table)
        self.drop("tokens", "head")
