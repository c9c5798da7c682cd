"""Kinds of tensors that a device can hold."""

import torch

from tests.capabilities.rows import alike, refused, works


@works(
    "all dtypes, complex numbers, views, `out=`, `resize_`",
    "With the numbers of the CPU, also bfloat16 where the GPU that is modelled has"
    " none.",
)
def dtypes(devs):
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        alike(
            lambda d, t=dtype: torch.arange(6, device=d).to(t).view(2, 3).t() * 2, devs
        )
    assert torch.vgpu.is_bf16_supported()
    out = torch.empty(0, device=devs[1])
    torch.add(torch.ones(3, device=devs[1]), 1, out=out)
    assert out.tolist() == [2, 2, 2]


@refused(
    "sparse tensors, `nn.Embedding(sparse=True)`",
    "virtual GPUs hold dense tensors only: keep torch.sparse_coo on the CPU.",
)
def sparse(devs):
    torch.eye(2).to_sparse().to(devs[1])


@refused(
    "nested tensors",
    "virtual GPUs hold dense tensors only: keep nested tensors on the CPU.",
)
def nested(devs):
    parts = [torch.ones(2, device=devs[1]), torch.ones(3, device=devs[1])]
    torch.nested.nested_tensor(parts, layout=torch.jagged)


@refused(
    "quantized tensors",
    "virtual GPUs hold dense tensors only: keep quantized tensors on the CPU.",
)
def quantized(devs):
    torch.quantize_per_tensor(torch.ones(2, device=devs[1]), 0.1, 0, torch.quint8)
