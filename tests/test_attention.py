"""Attention in one kernel on virtual GPUs: its numbers, its memory, its time."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.accelerators.hardware import achievable
from course_lib.accelerators.vgpu import attention
from tests.lasting import lasts

A100 = achievable("A100")
ONE = "ScaledDotProductFusedAttentionOverrideableBackward0"
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


@pytest.fixture(params=[attention._SCORES, 1], ids=["at once", "head by head"])
def scores(request, monkeypatch):
    """How many scores exist at once; with 1 each head of each sample is a part."""
    monkeypatch.setattr(attention, "_SCORES", request.param)


def inputs(*, rows=24, columns=24, width=16, groups=1, dtype=torch.float32):
    torch.manual_seed(0)
    shapes = [(3, 4, rows, width)] + 2 * [(3, 4 // groups, columns, width)]
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def outcome(device, tensors, mask=None, **options):
    """The output and all gradients of an attention on a device, and its node."""
    leaves = [tensor.to(device).requires_grad_() for tensor in tensors]
    if mask is not None:
        mask = mask.to(device)
        if mask.dtype != torch.bool:
            leaves.append(mask.requires_grad_())
    out = F.scaled_dot_product_attention(*leaves[:3], attn_mask=mask, **options)
    out.backward(torch.linspace(-1, 1, out.numel(), device=device).view_as(out))
    results = [out, *(leaf.grad for leaf in leaves)]
    return [each.detach().cpu().float() for each in results], out.grad_fn.name()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=str)
def test_in_float32_all_digits_are_those_of_the_plain_operators(devs, options):
    got, node = outcome(devs[1], inputs(), **options)
    with sdpa_kernel(SDPBackend.MATH):
        want, _ = outcome(devs[2], inputs(), **options)
    assert node == ONE
    assert all(map(torch.equal, got, want))


def masks():
    torch.manual_seed(1)
    empty = torch.rand(3, 1, 24, 24) > 0.3
    empty[0, 0, 5] = False  # a row that attends to nothing
    return {
        "bool": empty,
        "sum": torch.randn(1, 4, 24, 24),
        "flat": torch.randn(24, 24),
    }


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"scale": -0.3},
        *({"mask": name} for name in masks()),
    ],
    ids=str,
)
def test_numbers_and_gradients_are_those_of_the_plain_operators(
    devs, scores, dtype, options
):
    options, tensors = dict(options), inputs(dtype=dtype)
    mask = masks().get(options.pop("mask", None))
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)
    got, node = outcome(devs[1], tensors, mask, **options)
    with sdpa_kernel(SDPBackend.MATH):
        want, _ = outcome("cpu", tensors, mask, **options)
    assert node == ONE
    for ours, theirs in zip(got, want, strict=True):
        assert torch.allclose(ours, theirs, atol=TOLERANCE[dtype] * theirs.abs().max())


@pytest.mark.parametrize("rows, columns", [(16, 40), (40, 16)])
def test_query_and_keys_may_differ_in_length(devs, rows, columns):
    tensors = inputs(rows=rows, columns=columns)
    got, _ = outcome(devs[0], tensors, is_causal=True)
    with sdpa_kernel(SDPBackend.MATH):
        want, _ = outcome("cpu", tensors, is_causal=True)
    for ours, theirs in zip(got, want, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_backward_drops_the_same_weights_as_forward(devs, scores):
    query, key, value = (t.to(devs[0]).requires_grad_() for t in inputs())
    torch.manual_seed(3)
    out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.4)
    assert out.grad_fn.name() == ONE
    above = torch.randn(out.shape).to(devs[0])
    out.backward(above)
    # the output is linear in the values, whatever was dropped
    inner = (value.grad * value).sum()
    assert inner.item() == pytest.approx((out * above).sum().item(), rel=1e-4)
    torch.manual_seed(3)
    again = F.scaled_dot_product_attention(query, key, value, dropout_p=0.4)
    assert torch.equal(again.cpu(), out.cpu())
    # a step along the gradient changes the output as it says
    nudge = 1e-3 * query.grad
    torch.manual_seed(3)
    moved = F.scaled_dot_product_attention(query + nudge, key, value, dropout_p=0.4)
    change = ((moved - out) * above).sum().item()
    assert change == pytest.approx((nudge * query.grad).sum().item(), rel=0.05)


def saved(device, tensors, **options):
    """Bytes that forward leaves for backward, beside the inputs."""
    leaves = [tensor.to(device).requires_grad_() for tensor in tensors]
    before = torch.vgpu.memory_allocated(device)
    out = F.scaled_dot_product_attention(*leaves, **options)
    return torch.vgpu.memory_allocated(device) - before, out


def test_output_and_one_number_per_row_are_kept_and_no_scores(devs):
    tensors = inputs(rows=512, columns=512)
    bytes, out = saved(devs[0], tensors, is_causal=True)
    sums = 3 * 4 * 512 * 4
    assert bytes == out.nbytes + sums + 16  # and two numbers for random ones
    with sdpa_kernel(SDPBackend.MATH):
        plain, _ = saved(devs[1], tensors, is_causal=True)
    assert plain > 3 * 4 * 512 * 512 * 4


def test_no_copy_joins_the_heads(devs):
    bytes, out = saved(devs[0], inputs())
    before = torch.vgpu.memory_allocated(devs[0])
    joined = out.transpose(1, 2).contiguous().view(3, 24, 64)
    assert torch.vgpu.memory_allocated(devs[0]) == before
    assert joined.shape == (3, 24, 64)


@pytest.mark.parametrize(
    "gpu, change, node",
    [
        ("A100", {"dtype": torch.float64}, "UnsafeView"),
        ("V100", {"dtype": torch.bfloat16}, "ToCopy"),
        ("V100", {"dtype": torch.float16}, ONE),
        ("A100", {"width": 6}, "UnsafeView"),
        ("A100", {"width": 6, "dtype": torch.float16}, ONE),  # flash pads it
        ("V100", {"width": 6, "dtype": torch.float16}, "ToCopy"),
        ("A100", {"groups": 2, "dtype": torch.float16}, ONE),
        ("A100", {"groups": 2}, "UnsafeView"),
    ],
)
def test_the_kernel_is_chosen_as_on_cuda(virtual, gpu, change, node):
    (device,) = virtual(1, gpu=gpu)
    grouped = {"enable_gqa": True} if "groups" in change else {}
    assert outcome(device, inputs(**change), **grouped)[1].startswith(node)


def test_without_autograd_there_is_one_kernel_too(devs):
    tensors = [tensor.to(devs[0]) for tensor in inputs(rows=256, columns=256)]
    want = F.scaled_dot_product_attention(*tensors)
    for without in (torch.no_grad, torch.inference_mode):
        torch.vgpu.reset_peak_memory_stats(devs[0])
        before = torch.vgpu.memory_allocated(devs[0])
        with without():
            got = F.scaled_dot_product_attention(*tensors)
        assert torch.equal(got.cpu(), want.cpu())
        used = torch.vgpu.max_memory_allocated(devs[0]) - before
        assert used < 2 * want.nbytes < 3 * 4 * 256 * 256 * 4


def test_devices_are_not_mixed(devs):
    query, key, value = inputs()
    with pytest.raises(RuntimeError, match="to have the same device"):
        F.scaled_dot_product_attention(query.to(devs[0]), key.to(devs[1]), value)


@pytest.mark.parametrize("causal, share", [(False, 1.0), (True, 0.5)])
def test_time_is_that_of_the_products_without_what_a_causal_mask_leaves_out(
    virtual, causal, share
):
    (device,) = virtual(1, launch=0)
    shape = 1, 2, 1024, 64
    leaves = [torch.randn(shape).to(device).requires_grad_() for _ in range(3)]
    product = 2 * 2 * 1024 * 1024 * 64 / A100.flops["float32"]
    out = []

    def forward():
        out.append(F.scaled_dot_product_attention(*leaves, is_causal=causal))
        return out

    assert lasts(device, forward) == pytest.approx(2 * product * share, rel=2e-3)
    above = torch.ones_like(out[0])
    backward = lasts(device, lambda: torch.autograd.grad(out[0], leaves, above))
    # the scores again, and two products for each of the two
    assert backward == pytest.approx(5 * product * share, rel=2e-3)


def test_a_short_attention_moves_its_tensors_once(virtual):
    (device,) = virtual(1, launch=0)
    # many, so that it lasts longer than the shortest kernel
    given = [tensor.repeat(200, 1, 1, 1) for tensor in inputs(rows=8, columns=8)]
    tensors = [tensor.to(device) for tensor in given]
    time = lasts(device, lambda: F.scaled_dot_product_attention(*tensors))
    bytes = 4 * tensors[0].nbytes + 600 * 4 * 8 * 4 + 16
    assert time == pytest.approx(bytes / A100.bandwidth)


def test_the_flop_counter_counts_it_as_on_cuda(devs):
    from torch.utils.flop_counter import FlopCounterMode

    leaves = [tensor.to(devs[0]).requires_grad_() for tensor in inputs()]
    with FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(*leaves, is_causal=True).sum().backward()
    assert counter.get_total_flops() == (2 + 5) * 2 * 3 * 4 * 24 * 24 * 16
