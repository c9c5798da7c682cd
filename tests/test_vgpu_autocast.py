"""Autocast on virtual GPUs against CUDA's lists and against casts by hand."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import course_lib as cl
from course_lib.accelerators.vgpu import autocast

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
MACROS = {
    "lower": "LOWER_PRECISION_FP",
    "float32": "FP32",
    "result float32": "FP32_SET_OPT_DTYPE",
    "widest": "PROMOTE",
}


@pytest.fixture
def device():
    return cl.devices(1, quiet=True)[0]


@pytest.mark.parametrize("policy", MACROS)
def test_lists_are_those_of_cuda(policy):
    macro = rf"#define AT_FORALL_{MACROS[policy]}\(_\)((?:.*\\\n)*.*\n)"
    body = re.search(macro, HEADER.read_text(encoding="utf-8"))[1]
    names = {".".join(n.split(", ")) for n in re.findall(r"_\((\w+(?:, \w+)?)\)", body)}
    assert names == {name for name, own in autocast.policies() if own == policy}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_has_the_types_and_numbers_of_casts_by_hand(device, dtype):
    torch.manual_seed(0)
    linear, norm, x = nn.Linear(64, 32), nn.LayerNorm(32), torch.rand(16, 64)
    by_hand = F.linear(x.to(dtype), linear.weight.to(dtype), linear.bias.to(dtype))
    loss = norm(by_hand.float()).square().mean()
    loss.backward()
    want = linear.weight.grad.clone()
    linear.zero_grad()
    linear.to(device), norm.to(device)
    with torch.autocast("vgpu", dtype):
        product = linear(x.to(device))
        normed = norm(product)
        found = normed.square().mean()
    found.backward()
    assert (product.dtype, normed.dtype, found.dtype) == (dtype, *[torch.float32] * 2)
    assert torch.equal(product.cpu(), by_hand)
    torch.testing.assert_close(found.cpu(), loss)
    assert linear.weight.dtype == linear.weight.grad.dtype == torch.float32
    torch.testing.assert_close(linear.weight.grad.cpu(), want)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x @ x, torch.bfloat16),
        (lambda x: F.conv2d(x[None, None], x[None, None]), torch.bfloat16),
        (lambda x: F.softmax(x.bfloat16(), -1), torch.float32),
        (lambda x: F.softmax(x, -1, dtype=torch.float64), torch.float64),
        (lambda x: x.bfloat16().sum(), torch.float32),
        (lambda x: x.bfloat16().norm(), torch.float32),
        (lambda x: x.bfloat16().norm(dim=1), torch.float32),
        (lambda x: x.bfloat16().exp(), torch.float32),
        (lambda x: torch.addcmul(x, x.bfloat16(), x), torch.float32),
        (lambda x: torch.addcmul(*[x.bfloat16()] * 3), torch.bfloat16),
        (lambda x: x.bfloat16() + x, torch.float32),
        (lambda x: x.bfloat16().relu(), torch.bfloat16),
        (lambda x: x.double() @ x.double(), torch.float64),
    ],
)
def test_each_policy(device, function, dtype):
    with torch.autocast("vgpu", torch.bfloat16):
        assert function(torch.rand(4, 4, device=device)).dtype == dtype


def test_a_weight_is_cast_once_and_forgotten_after_the_block(device):
    weight = torch.rand(512, 512, device=device, requires_grad=True)
    x = torch.rand(1, 512, device=device)
    before = torch.vgpu.memory_allocated()
    for _ in range(2):
        with torch.autocast("vgpu", torch.bfloat16), torch.autocast("vgpu"):
            y = x @ weight + x @ weight
            held = torch.vgpu.memory_allocated() - before
        y.sum().backward()
        assert 2 * 512**2 <= held < 4 * 512**2  # one copy of two bytes, not two
        del y
        weight.grad = None
        assert torch.vgpu.memory_allocated() == before


def test_products_run_at_the_rate_of_their_type():
    (device,) = cl.devices(1, launch=0, quiet=True)
    # a CPU may take a minute for products of bfloat16 that are long as well as wide
    a, b = (torch.rand(shape, device=device) for shape in ((2048, 512), (512, 2048)))

    def seconds(enabled):
        with torch.autocast("vgpu", torch.bfloat16, enabled=enabled), cl.trace() as t:
            a @ b
        return t.span

    # 15.6 and 234 TFLOP/s are reached on an A100; two casts are memory's, 8.3 in all
    assert 8 < seconds(False) / seconds(True) < 16


def test_activations_have_half_the_bytes(device):
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)]).to(device)
    x = torch.rand(4096, 256, device=device)
    before, held = torch.vgpu.memory_allocated(), []
    for enabled in (False, True):
        with torch.autocast("vgpu", torch.bfloat16, enabled=enabled):
            y = model(x)
        held.append(torch.vgpu.memory_allocated() - before)
        del y
    # under autocast also a copy of the input, and of each weight but the first
    assert held[0] == 8 * 4096 * 256 * 4
    assert held[1] == 9 * 4096 * 256 * 2 + 7 * 256**2 * 2


def test_a_scaler_skips_a_step_that_overflowed(device):
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("vgpu", init_scale=2.0**12)
    before = model.weight.detach().cpu()
    scales, moved = [], []
    for _ in range(8):
        with torch.autocast("vgpu", torch.float16):
            loss = model(torch.ones(64, 8, device=device)).sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not torch.equal(model.weight.detach().cpu(), before))
    # a gradient is 64 times the scale, and 65,504 is the largest number of float16
    assert scales == [2048, 1024, 512, *[512] * 5]
    assert moved == [False] * 3 + [True] * 5


def test_what_cuda_refuses_is_refused(device):
    p = torch.rand(4, device=device)
    with torch.autocast("vgpu"), pytest.raises(RuntimeError, match="unsafe to"):
        F.binary_cross_entropy(p, p)
    with pytest.warns(UserWarning, match="only supports dtypes of torch.float16"):
        torch.autocast("vgpu", torch.float64)


def test_without_autocast_nothing_is_cast(device):
    x = torch.rand(4, 4, device=device)
    with torch.autocast("vgpu"), torch.autocast("vgpu", enabled=False):
        assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_16_bits_add_up_in_float32_and_round_once(device, dtype):
    torch.manual_seed(0)
    left, right = torch.rand(3, 5, 4000).to(dtype), torch.rand(3, 4000, 7).to(dtype)
    bias, ours = torch.rand(7).to(dtype), [t.to(device) for t in (left, right)]
    want = (left.float() @ right.float()).to(dtype)
    assert torch.equal((ours[0] @ ours[1]).cpu(), want)
    assert torch.equal((ours[0][0] @ ours[1][0]).cpu(), want[0])
    found = torch.addmm(bias.to(device), ours[0][0], ours[1][0])
    want = torch.addmm(bias.float(), left[0].float(), right[0].float())
    assert found.dtype == dtype and torch.equal(found.cpu(), want.to(dtype))


def test_what_leaves_the_range_of_float16_is_infinite(device):
    large = torch.full((2, 2), 300.0, dtype=torch.float16, device=device)
    assert (large @ large).isinf().all() and not (
        large.float() @ large.float()
    ).isinf().any()


def test_products_of_two_types_are_refused_as_before(device):
    halves = torch.ones(2, 2, dtype=torch.float16, device=device)
    with pytest.raises(RuntimeError, match="same dtype|expected m1 and m2"):
        halves @ halves.bfloat16()
