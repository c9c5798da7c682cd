"""The fullest moment of a GPT's step by arithmetic, against what virtual GPUs count."""

import contextlib
import gc

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from course_lib.accelerators import gpt_peak
from course_lib.accelerators.gpt_peak import GptStep, arithmetic, fullest
from course_lib.accelerators.memory_by_kind import tensors_in
from course_lib.exercises.device_runs import one_gpu
from course_lib.gpt import GPT, Recomputed

# layers, width, heads, tokens of a window, windows of a step and at once, bits,
# recomputed, plain: each switch both ways, micro-batches that do and do not divide the
# batch, one window, one head, and models that are larger than their activations
PLANS = [
    GptStep(4, 72, 2, 47, 10, 10),
    GptStep(3, 40, 2, 58, 7, 3),
    GptStep(2, 140, 5, 6, 9, 4),
    GptStep(2, 96, 3, 31, 4, 4, plain=True),
    GptStep(3, 60, 5, 83, 5, 2, plain=True),
    GptStep(4, 44, 1, 37, 6, 4, recompute=True),
    GptStep(5, 16, 2, 35, 2, 2, recompute=True, plain=True),
    GptStep(4, 16, 1, 47, 2, 1, recompute=True, plain=True),
    GptStep(1, 40, 2, 12, 2, 2, plain=True),
    GptStep(3, 40, 2, 78, 8, 8, bits=16),
    GptStep(2, 60, 5, 67, 4, 1, bits=16),
    GptStep(3, 180, 3, 20, 1, 1, bits=16),
    GptStep(5, 120, 5, 57, 7, 6, bits=16, plain=True),
    GptStep(3, 52, 1, 29, 9, 4, bits=16, plain=True),
    GptStep(4, 60, 5, 49, 9, 6, bits=16, recompute=True),
    GptStep(4, 72, 3, 66, 8, 2, bits=16, recompute=True, plain=True),
    GptStep(4, 36, 3, 19, 9, 9, bits=16, recompute=True, plain=True),
]


class Parts:
    """The peak of each part of a step, as `Fullest.part` calls it."""

    def __init__(self, model):
        self.device, self.gpu = one_gpu()
        self.peaks, self.part = {}, "none"
        for number, block in enumerate(model.blocks):
            block.register_forward_hook(
                lambda block, given, found, part=f"block {number}": self.at(found, part)
            )
        model.blocks[0].register_forward_pre_hook(
            lambda block, given: self.at(given[0], "embeddings")
        )

    def at(self, tensor, part):
        """A part begins when backward has the whole gradient of a tensor."""
        tensor.register_hook(lambda grad: self.begins(part))

    def begins(self, part):
        most = self.gpu.max_memory_allocated(self.device)
        self.peaks[self.part] = max(most, self.peaks.get(self.part, 0))
        self.gpu.reset_peak_memory_stats(self.device)
        self.part = part


def trained(plan):
    """A model on a virtual GPU with its optimizer, its parts, and a step to call."""
    device, _ = one_gpu()
    gc.collect()  # nothing of earlier tests is on it
    model = GPT(plan.length, plan.width, plan.heads, plan.layers).to(device)
    if plan.recompute:
        model.blocks = nn.ModuleList(map(Recomputed, model.blocks))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    codes, parts = torch.randint(96, (2, plan.batch, plan.length)), Parts(model)

    def step():
        for part in codes.split(plan.microbatch, dim=1):
            parts.begins("forward")
            tokens, targets = part.to(device)
            with torch.autocast("vgpu", torch.bfloat16, enabled=plan.bits == 16):
                found = model(tokens).flatten(0, 1)
                loss = cross_entropy(found, targets.flatten())
                del found
            parts.begins("loss")
            loss.backward()
        parts.begins("step")
        optimizer.step()
        optimizer.zero_grad()
        parts.begins("none")

    return model, optimizer, parts, step


def kernels(plan):
    return sdpa_kernel(SDPBackend.MATH) if plan.plain else contextlib.nullcontext()


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_peak_of_a_step_is_what_a_virtual_gpu_counts(plan):
    model, optimizer, parts, step = trained(plan)
    with kernels(plan):
        step()
        parts.peaks.clear()
        step()
    found, part = fullest(plan), max(parts.peaks, key=parts.peaks.get)
    assert found.total == pytest.approx(parts.peaks[part], rel=0.01)
    assert found.part == part
    parameters = sum(p.nbytes for p in model.parameters())
    state = sum(t.nbytes for t in tensors_in(optimizer.state) if t.dim())
    assert parameters == found.held["parameters"] == 4 * plan.parameters
    assert state == found.held["optimizer state"]


def test_steps_are_fullest_in_all_their_parts():
    """Each part is held against a virtual GPU above."""
    parts = {fullest(plan).part.rstrip(" 0123456789") for plan in PLANS}
    assert parts == {"forward", "loss", "block", "embeddings"}


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_arithmetic_is_what_torch_counts(bits, recompute, plain):
    plan = GptStep(3, 24, 2, 10, 6, 4, bits, recompute, plain)
    *_, step = trained(plan)
    with kernels(plan), FlopCounterMode(display=False) as counter:
        step()
    tokens = plan.batch * plan.length
    assert counter.get_total_flops() == tokens * arithmetic(plan)


def test_gradients_are_there_from_the_second_micro_batch_on():
    whole = fullest(GptStep(3, 40, 2, 58, 8, 8))
    parts = fullest(GptStep(3, 40, 2, 58, 8, 4))
    assert (whole.again, parts.again) == (False, True)
    assert (whole.part, parts.part) == ("loss", "loss")
    assert whole.held["gradients"] == 0
    assert parts.held["gradients"] == parts.held["parameters"]


def test_a_short_second_micro_batch_may_be_less_than_the_first():
    plan = GptStep(2, 32, 2, 80, 9, 8)
    assert not fullest(plan).again and plan.turns == 2
    assert fullest(plan).total == fullest(plan._replace(batch=8)).total
    assert fullest(plan._replace(batch=16)).again


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_what_a_step_takes_it_gives_back_but_for_gradients(plan, again):
    turn = gpt_peak._Turn(plan, plan.microbatch, again=again)
    turn.walk()
    assert turn.sums["gradients"] == turn.sums["parameters"]
    assert turn.sums["activations"] == turn.held["codes"][1]
