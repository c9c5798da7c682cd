"""What a device holds."""

import torch

from tests.capabilities.rows import A100, modelled, raises, refused, works


@works(
    "`memory_allocated`, `max_memory_allocated`, `mem_get_info`",
    "The bytes of all tensors, each memory once; they are free as soon as the last"
    " tensor of it is gone.",
)
def allocated(devs):
    x = torch.ones(1000, device=devs[1])
    view = x[10:]
    assert torch.vgpu.memory_allocated(1) == 4000
    del x
    assert torch.vgpu.memory_allocated(1) == 4000 and view.numel() == 990
    del view
    assert torch.vgpu.memory_allocated(1) == 0
    assert torch.vgpu.max_memory_allocated(1) == 4000


@works(
    "`x.untyped_storage().resize_(0)`, and back",
    "Frees the bytes, and takes them again, for all tensors of this memory. What works"
    " on a freed tensor raises a sentence in place of an illegal memory access.",
)
def resized(devs):
    x = torch.ones(1000, device=devs[1])
    view = x[10:]
    x.untyped_storage().resize_(0)
    assert torch.vgpu.memory_allocated(1) == 0
    raises(lambda: view + 1, "add was given a tensor of shape [990] on vgpu:1 whose")
    x.untyped_storage().resize_(4000)
    assert torch.vgpu.memory_allocated(1) == 4000 and view.zero_().sum() == 0


@refused(
    "more than there is",
    "vgpu out of memory. Tried to allocate 37.25 GiB. GPU 0 has a total capacity of"
    " 37.25 GiB of which 37.25 GiB is free. Including non-PyTorch memory, this process"
    " has 0 bytes memory in use. Of the allocated memory 0 bytes is allocated by"
    " PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but"
    " unallocated memory is large try setting"
    " PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
)
def too_much(devs):
    return torch.empty(A100.memory + 1, dtype=torch.bool, device=devs[0])


@modelled(
    "`memory_reserved`, `memory_stats`, `memory_summary`, `empty_cache`",
    "There is no caching allocator: reserved is what tensors hold. So an out-of-memory"
    " error says that 0 bytes are reserved but unallocated, and memory never falls into"
    " pieces. `PYTORCH_ALLOC_CONF` changes nothing.",
)
def reserved(devs):
    kept = torch.ones(1000, device=devs[1])
    assert torch.vgpu.memory_reserved(1) == kept.nbytes
    assert torch.vgpu.max_memory_reserved(1) == torch.vgpu.max_memory_allocated(1)
    assert torch.vgpu.memory_stats(1)["reserved_bytes.all.current"] == kept.nbytes
    summary = torch.vgpu.memory_summary(1).split("\n")
    assert ["activations", "3.91", "KiB"] in [line.split() for line in summary]
    torch.vgpu.empty_cache()
    assert torch.vgpu.memory_reserved(1) == kept.nbytes
