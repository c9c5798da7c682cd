"""Types of numbers: autocast, TF32, and what they do to bytes and times."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import course_lib as cl
from course_lib.accelerators.hardware import achievable
from tests.capabilities.rows import modelled, raises, refused, works


@works(
    "`torch.autocast(device.type, torch.bfloat16)`, also float16",
    "Operators run in the type that CUDA's lists give them, weights are cast once in a"
    " block; numbers are rounded to the type, and its bytes are counted. Products and"
    " convolutions of 16 bits add up in float32 and round once, as on CUDA.",
)
def autocast(devs):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).to(devs[1])
    x = torch.rand(4, 8, device=devs[1])
    with torch.autocast("vgpu", torch.bfloat16):
        product = model[0](x)
        assert (product.dtype, model(x).dtype) == (torch.bfloat16, torch.float32)
    weight, bias = (p.detach().cpu().bfloat16() for p in model[0].parameters())
    assert_close(product.cpu(), F.linear(x.cpu().bfloat16(), weight, bias))


@refused(
    "`F.binary_cross_entropy` under autocast",
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to"
    " autocast: use binary_cross_entropy_with_logits or BCEWithLogitsLoss, and leave"
    " out the sigmoid before it.",
)
def unsafe(devs):
    p = torch.rand(4, device=devs[0])
    with torch.autocast("vgpu"):
        raises(lambda: F.binary_cross_entropy(p, p), "unsafe to autocast")
        F.binary_cross_entropy(p, p)


def _seconds(call):
    with cl.trace() as trace:
        call()
    return trace.span


@modelled(
    "products and convolutions in float64, float32, TF32, float16, bfloat16",
    "Each type has a rate of its own. As on CUDA, convolutions of float32 use"
    " TF32 unless `torch.backends.cudnn.allow_tf32 = False`, products of matrices do"
    " so after `torch.set_float32_matmul_precision('high')`. The numbers stay those of"
    " float32.",
)
def rates(devs):
    a = torch.rand(1024, 1024, device=devs[0])
    plain = _seconds(lambda: a @ a)
    b = a.bfloat16()
    reached = achievable("A100").flops
    want = 2 * 1024**3 / reached["float32"]
    assert_close(plain, want, rtol=0.01, atol=0)
    assert _seconds(lambda: b @ b) < plain / 4  # its bytes take longer than the rest
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert _seconds(lambda: a @ a) < plain / 2
    finally:
        torch.set_float32_matmul_precision(before)
    x = torch.rand(8, 64, 16, 16, device=devs[0])
    conv = nn.Conv2d(64, 64, 3, padding=1).to(devs[0])
    switch = torch.backends.cudnn.conv
    before, switch.fp32_precision = switch.fp32_precision, "tf32"
    try:
        fast = _seconds(lambda: conv(x))
        switch.fp32_precision = "ieee"
        assert _seconds(lambda: conv(x)) > 1.5 * fast
    finally:
        switch.fp32_precision = before


@modelled(
    "`F.scaled_dot_product_attention`, `nn.MultiheadAttention`",
    "One kernel, where CUDA has one: the matrix of scores is neither kept nor counted."
    " `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` brings it back.",
)
def attention(devs):
    shape = 1, 2, 128, 16
    q, k, v = (torch.rand(shape, device=devs[0], requires_grad=True) for _ in range(3))
    held = []
    for backend in torch.nn.attention.SDPBackend.MATH, None:
        before = torch.vgpu.memory_allocated(0)
        if backend is None:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            with torch.nn.attention.sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(q, k, v)
        held.append(torch.vgpu.memory_allocated(0) - before)
        own = out.detach().cpu()
        del out
    scores = 4 * 2 * 128 * 128
    assert held[0] > scores > held[1]
    assert_close(own, F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu()))
