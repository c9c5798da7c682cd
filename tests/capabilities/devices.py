"""Devices, and what may be asked of them."""

import torch
from torch import nn

from course_lib.accelerators.virtual import machine
from tests.capabilities.rows import A100, N, absent, alike, raises, refused, works


@works(
    '`x.to("vgpu:1")`, `device="vgpu:1"`, `with torch.device(…)`',
    "Tensors and modules are made on a device, moved and mixed as on CUDA.",
)
def devices_by_name(devs):
    alike(lambda device: torch.arange(6.0).to(device) @ torch.ones(6).to(device), devs)
    with torch.device("vgpu:2"):
        made = torch.ones(2), torch.tensor(1), nn.Linear(2, 1).weight
    assert {x.device for x in made} == {devs[2]}


@works(
    '`"vgpu"` without a number',
    "It is the current device: that of `torch.vgpu.device(1)`,"
    " `torch.vgpu.set_device` or `torch.accelerator.set_device_index`.",
)
def current_device(devs):
    x, module = torch.ones(2, device=devs[0]), nn.Linear(2, 1)
    with torch.get_device_module(devs[0]).device(1):
        assert x.to("vgpu").device == devs[1]
        assert module.to("vgpu").weight.device == devs[1]
        assert torch.tensor([1], device="vgpu").device == devs[1]
    torch.accelerator.set_device_index(2)
    try:
        assert x.to(device="vgpu").device == devs[2]
        assert torch.accelerator.current_device_index() == 2
    finally:
        torch.accelerator.set_device_index(0)
    assert x.to("vgpu") is x


@absent(
    '`with torch.device("vgpu"):` inside of `torch.vgpu.device(2)`',
    '`torch.tensor` then makes tensors on "vgpu:0", other factories on "vgpu:2": name'
    " the number.",
)
def context_without_a_number(devs):
    with torch.vgpu.device(2), torch.device("vgpu"):
        assert [torch.tensor(1).device, torch.ones(1).device] == [devs[0], devs[2]]


@works(
    "`torch.accelerator`",
    "All of its functions answer for virtual GPUs, while there are any: devices,"
    " streams, memory, `synchronize`. PyTorch refuses `Graph`.",
)
def accelerator(devs):
    module = torch.accelerator
    assert module.is_available() and module.device_count() == 3
    assert module.current_accelerator().type == "vgpu"
    kept = torch.ones(N, device=devs[1])
    with module.device_index(1):
        assert module.memory_allocated() == kept.nbytes == module.memory_reserved()
        module.synchronize()
        assert module.current_stream().query()
    module.reset_peak_memory_stats(1)
    assert module.max_memory_allocated(1) == kept.nbytes
    assert module.get_memory_info(1) == (A100.memory - kept.nbytes, A100.memory)
    assert module.memory_stats(1)["allocated_bytes.all.current"] == kept.nbytes
    module.empty_cache(), module.empty_host_cache()
    raises(module.Graph, "Graph is not supported on device type: vgpu")
    assert torch.float32 in module.get_device_capability()["supported_dtypes"]


@works(
    "`torch.vgpu.get_device_properties`, `get_device_capability`",
    "Name and compute capability are those of the GPU that is modelled, the memory is"
    ' that of `cl.devices(…, memory="24 MB")`.',
)
def properties(devs):
    machine.places[1].account.capacity = 24_000_000
    found = torch.vgpu.get_device_properties(1)
    assert (found.name, found.total_memory) == ("virtual A100", 24_000_000)
    assert torch.vgpu.get_device_capability(1) == (8, 0) == (found.major, found.minor)
    assert torch.vgpu.get_device_name(1) == found.name


@refused(
    "`get_device_properties(0).multi_processor_count` and others",
    "a virtual GPU has no multi_processor_count: only memory, bandwidth and FLOP/s of"
    " the GPU are modelled, and the CPU computes the numbers.",
)
def other_properties(devs):
    return torch.vgpu.get_device_properties(0).multi_processor_count


@refused(
    "`CUDAGraph`, `nvtx`, `ipc_collect` and what else `torch.cuda` has",
    "torch.vgpu has no CUDAGraph: docs/virtual-gpus.md lists what of torch.cuda virtual"
    " GPUs have.",
)
def other_names(devs):
    return torch.vgpu.CUDAGraph


@refused(
    "two devices in one operator",
    "Expected all tensors to be on the same device, but found at least two devices,"
    " vgpu:0 and vgpu:1! (when checking arguments in method wrapper_vgpu_add)",
)
def mixture(devs):
    return torch.ones(2, device=devs[0]) + torch.ones(2, device=devs[1])


@refused(
    "a device beyond the last",
    "vgpu error: invalid device ordinal 3: there are 3 virtual GPUs, vgpu:0 to vgpu:2."
    " cl.devices(n) makes n of them.",
)
def beyond(devs):
    return torch.ones(2, device="vgpu:3")


class OnDevice(list):
    """A data set whose samples are on a device."""

    def __getitem__(self, index):
        return super().__getitem__(index) * 2


@refused(
    "the devices of its parent in a forked process, as a worker of a DataLoader",
    "Cannot re-initialize vgpu in forked subprocess: keep what it works on on the CPU"
    " and move it to the device in the process that made the devices, or make others"
    " here by cl.devices(n).",
)
def forked(devs):
    samples = OnDevice([torch.ones(2, device=devs[1])])
    loader = torch.utils.data.DataLoader(
        samples, num_workers=1, multiprocessing_context="fork"
    )
    next(iter(loader))
