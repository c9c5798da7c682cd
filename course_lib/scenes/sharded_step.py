"""One training step of DDP and of ZeRO's three stages: what ranks hold and send."""

from fractions import Fraction
from typing import NamedTuple

from course_lib.text import size

# by Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
# Models" (2020), https://arxiv.org/abs/1910.02054
STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
KINDS = ("weights", "gradients", "optimizer state")
BYTES = {"float32": (4, 4, 8), "16 bits + float32 copy": (2, 2, 12)}  # for each number


class StepMoment(NamedTuple):
    """A moment of the step: what each rank holds of each block, by kind.

    `weights` are "own", a rank's share, or every share: "all", "old" where only the own
    one is from after the optimizer's step, "new" where all are. `gradients` are "none",
    "local", those of a rank's own samples, or of the mean "own", a rank's share,
    "mean", every share, or "part": the own one, the others are local. `state`, of the
    optimizer, is "own" or "all". Each rank has `sent` so many bytes. `focus` are the
    kinds that a moment is about, of a `block` or of all.
    """

    title: str
    weights: tuple[str, ...]
    gradients: tuple[str, ...]
    state: str
    sent: Fraction = Fraction(0)
    focus: tuple[str, ...] = ()
    block: int | None = None


class ShardedModel(NamedTuple):
    """A model of equal blocks, each cut into a share for each rank, under a stage."""

    stage: int
    ranks: int
    blocks: int
    parameters: int
    bytes: tuple[int, int, int]

    def whole(self, kind: str) -> int:
        """Return bytes of a kind, of the whole model."""
        return self.parameters * self.bytes[KINDS.index(kind)]

    def held(self, moment: StepMoment) -> dict[str, Fraction]:
        """Return the bytes of each kind that a rank holds."""
        state = (moment.state,) * self.blocks
        found = {}
        for kind, held in zip(KINDS, (moment.weights, moment.gradients, state)):
            shares = sum(self._shares(how) for how in held)
            found[kind] = self.whole(kind) * Fraction(shares, self.blocks * self.ranks)
        return found

    def _shares(self, how):
        return {"none": 0, "own": 1}.get(how, self.ranks)

    def sends(self, kind: str, *, blocks: int) -> Fraction:
        """Return bytes that a rank sends in a reduce-scatter or all-gather on a ring.

        An all-reduce is both, one after the other.
        """
        part = Fraction(self.ranks - 1, self.ranks)
        return part * self.whole(kind) * Fraction(blocks, self.blocks)

    @property
    def ddp_sends(self) -> Fraction:
        """Return bytes that a rank sends in a step of DDP."""
        return 2 * self.sends("gradients", blocks=self.blocks)

    @property
    def ddp_holds(self) -> int:
        """Return bytes that a rank of DDP holds when all gradients are there."""
        return sum(map(self.whole, KINDS))


def step_moments(model: ShardedModel) -> list[StepMoment]:
    """Return the moments of a step; after the last one gradients are freed."""
    moments = [_between(model)]
    for part in (_forward, _backward, _reduce, _update, _gather_new):
        moments += part(model, moments[-1])
    most = max(float(sum(model.held(moment).values())) for moment in moments)
    title = _summary(model, most, moments[-1].sent)
    return [*moments, moments[-1]._replace(title=title, focus=(), block=None)]


def _between(model):
    weights = "own" if model.stage == 3 else "all"
    state = "all" if model.stage == 0 else "own"
    has = {
        0: "all weights, and the whole optimizer state",
        3: "its share of the weights and of the optimizer state",
    }.get(model.stage, "all weights, and its share of the optimizer state")
    title = f"Between two steps: a rank has {has}."
    every = model.blocks
    return StepMoment(title, (weights,) * every, ("none",) * every, state)


def _forward(model, now):
    if model.stage < 3:
        title = "Forward: each rank has all weights. Nothing is sent."
        return [now._replace(title=title, focus=("weights",))]
    moments = []
    for block in range(model.blocks):
        title = f"Forward, block {block + 1}: an all-gather brings the other shares."
        moments.append(_gather(model, now, block, title))
        now = _free(moments[-1], block)
        title = f"Block {block + 1} has computed: its other shares are freed."
        moments.append(now._replace(title=title))
    return moments


def _backward(model, now):
    """Gradients come from the last block to the first."""
    moments = []
    for block in reversed(range(model.blocks)):
        start = f"Backward, block {block + 1}"
        if model.stage == 3:
            title = f"{start}: an all-gather brings its weights again."
            now = _gather(model, now, block, title)
            moments.append(now)
        title = f"{start}: gradients appear, of each rank's own samples."
        local = _put(now.gradients, block, "local")
        now = _about(now, title, "gradients", block)._replace(gradients=local)
        moments.append(now)
        if model.stage > 1:
            now = _reduce_block(model, now, block)
            moments.append(now)
    return moments


def _reduce_block(model, now, block):
    title = f"Reduce-scatter, block {block + 1}: a rank keeps its share of the mean"
    title += ", and frees the rest."
    if model.stage == 3:
        now = _free(now, block)
    return _about(now, title, "gradients", block)._replace(
        gradients=_put(now.gradients, block, "own"),
        sent=now.sent + model.sends("gradients", blocks=1),
    )


def _reduce(model, now):
    """DDP and ZeRO-1, without buckets: all gradients at once."""
    if model.stage > 1:
        return []
    how, title = "mean", "All-reduce: each rank gets the mean of all gradients."
    sent = model.ddp_sends
    if model.stage == 1:
        how, sent = "part", model.sends("gradients", blocks=model.blocks)
        title = "Reduce-scatter: a rank's share is the mean's. The rest stays, unused."
    now = _about(now, title, "gradients")
    return [now._replace(gradients=(how,) * model.blocks, sent=sent)]


def _update(model, now):
    if model.stage == 0:
        title = "The optimizer updates all weights, on each rank the same."
        return [now._replace(title=title, focus=KINDS, block=None)]
    title = "The optimizer of a rank updates its own share."
    weights = now.weights
    if model.stage == 3:
        title += " Nothing more is sent."
    else:
        title += " The other weights are old now."
        weights = ("old",) * model.blocks
    return [now._replace(title=title, weights=weights, focus=KINDS, block=None)]


def _gather_new(model, now):
    if model.stage not in (1, 2):
        return []
    title = "All-gather: each rank gets the new weights of the other shares."
    sent = now.sent + model.sends("weights", blocks=model.blocks)
    weights = ("new",) * model.blocks
    return [_about(now, title, "weights")._replace(weights=weights, sent=sent)]


def _summary(model, most, sent):
    if model.stage == 0:
        came = f"a rank held at most {size(most)}, and sent {size(float(sent))}"
        return f"DDP: {came}."
    share, times = float(most / model.ddp_holds), float(sent / model.ddp_sends)
    held = f"a rank held at most {100 * share:.3g} % of DDP's bytes"
    much = "as much" if times == 1 else f"{times:g} times as much"
    return f"{STAGES[model.stage]}: {held}, and sent {much}."


def _gather(model, now, block, title):
    now = _about(now, title, "weights", block)
    sent = now.sent + model.sends("weights", blocks=1)
    return now._replace(weights=_put(now.weights, block, "all"), sent=sent)


def _free(now, block):
    return now._replace(weights=_put(now.weights, block, "own"))


def _about(now, title, kind, block=None):
    return now._replace(title=title, focus=(kind,), block=block)


def _put(held, block, how):
    return (*held[:block], how, *held[block + 1 :])
