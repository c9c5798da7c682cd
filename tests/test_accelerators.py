"""Choosing devices: one line that says which, and a clear error for bad input."""

import pytest
import torch

from course_lib.accelerators import selection
from course_lib.accelerators.hardware import GPUS, LINKS
from course_lib.accelerators.virtual import machine
from course_lib.errors import UsageError


def test_one_line_says_which_devices_they_are(virtual, capsys):
    virtual(4, quiet=False)
    virtual(1, "1.5 GB", gpu="t4", quiet=False)
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "4 virtual GPUs: A100, 40 GB each, NVLink3. Numbers and errors are real, bytes"
        " are counted, times are modelled."
    )
    assert second.startswith("1 virtual GPU: T4, 1.5 GB. Numbers")


def test_quiet_devices_say_nothing(virtual, capsys):
    assert virtual(2) == [torch.device("vgpu:0"), torch.device("vgpu:1")]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("memory", "bytes"),
    [(None, 40e9), (1e6, 1e6), ("24 MB", 24e6), ("2 MiB", 2**21), ("1.5GB", 1.5e9)],
)
def test_the_memory_is_what_was_asked_for(virtual, memory, bytes):
    device = virtual(2, memory)[1]
    assert torch.vgpu.mem_get_info(device) == (bytes, bytes)


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_may_be_chosen(virtual, name):
    device = virtual(1, gpu=name)[0]
    assert torch.vgpu.mem_get_info(device)[1] == GPUS[name].memory
    assert name in torch.vgpu.get_device_name(device)


@pytest.mark.parametrize("name", LINKS)
def test_every_link_may_be_chosen(virtual, name):
    virtual(2, link=name)
    assert machine.clock.link is LINKS[name]


def test_devices_without_nccl_are_virtual_and_say_so(virtual, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    devs = virtual(4, nccl=False, quiet=False)
    assert devs[0].type == "vgpu" and "NVLink3 without NCCL" in machine.source
    assert "40 GB each, NVLink3 without NCCL" in capsys.readouterr().out


BAD = {
    "none": ({"n": 0}, "cannot make 0 devices: expected a whole number from 1"),
    "fewer": ({"n": -3}, "cannot make -3 devices"),
    "truth": ({"n": True}, "cannot make True devices"),
    "word": ({"n": "2"}, "cannot make '2' devices"),
    "half": ({"n": 1.5}, "cannot make 1.5 devices"),
    "many": ({"n": 10**9}, "cannot make 1000000000 devices"),
    "gpu": ({"gpu": "A1000"}, "unknown|known are T4, V100, A100.*Did you mean 'A100'"),
    "no gpu": ({"gpu": 4}, "known are T4"),
    "link": ({"link": "NVLink9"}, "known are PCIe3, .*NVLink5, .*ideal"),
    "negative": (
        {"memory": "-1 MB"},
        "'-1 MB' .* does not read as a number",
    ),
    "zero": ({"memory": 0}, "cannot use 0 .* not one byte to 1 PB"),
    "lots": ({"memory": "lots"}, "cannot use 'lots' .* does not read as a number"),
    "unit": ({"memory": "3 apples"}, "the unit 'apples' is none of"),
    "absurd": ({"memory": "1e30 GB"}, "not one byte to 1 PB"),
    "nan": ({"memory": float("nan")}, "it is not one byte to 1 PB"),
    "list": ({"memory": [1]}, "it does not read as a number"),
    "launch": ({"launch": -1}, "cannot launch operators in -1 seconds"),
    "slow": ({"launch": "slow"}, "cannot launch operators in 'slow' seconds"),
    "forever": ({"launch": float("inf")}, "cannot launch operators in inf seconds"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_and_changes_nothing(virtual, options, message):
    virtual(2, "5 MB")
    kept = torch.ones(10, device="vgpu:1")
    with pytest.raises(UsageError, match=message):
        virtual(**{"n": 1, **options})
    assert machine.count == 2 and (kept + 1).sum().item() == 20
    assert torch.vgpu.mem_get_info(1) == (5_000_000 - 40, 5_000_000)


@pytest.mark.parametrize("index", [2, 7])
def test_a_device_beyond_the_count_is_refused_everywhere(virtual, index):
    virtual(3)
    virtual(2)
    name = f"vgpu:{index}"
    for use in (
        lambda: torch.ones(2, device=name),
        lambda: torch.ones(2).to(name),
        lambda: torch.vgpu.memory_allocated(index),
        lambda: torch.vgpu.set_device(name),
        lambda: torch.vgpu.synchronize(name),
    ):
        with pytest.raises(RuntimeError, match=f"invalid device ordinal {index}"):
            use()


# --- once more


def test_what_is_alive_stays_counted_when_devices_are_chosen_again(virtual):
    virtual(2, "5 MB")
    kept = torch.ones(1000, device="vgpu:1")
    virtual(2, "1 MB", gpu="T4")
    assert torch.vgpu.memory_allocated(1) == 4000
    assert torch.vgpu.max_memory_allocated(1) == 4000
    assert torch.vgpu.mem_get_info(1) == (996_000, 1_000_000)
    del kept
    assert torch.vgpu.memory_allocated(1) == 0


def test_the_clock_starts_at_zero_when_devices_are_chosen_again(virtual):
    virtual(2)
    torch.ones(1000, device="vgpu:1").cpu()
    assert machine.clock.host > 0
    virtual(2)
    assert machine.clock.host == 0 and machine.clock.free == [0, 0]


def test_a_tensor_of_a_device_that_is_gone_can_still_be_read(virtual):
    virtual(3)
    kept = torch.ones(3, device="vgpu:2")
    virtual(1)
    assert kept.tolist() == [1, 1, 1] and "vgpu:2" in repr(kept)
    assert kept.cpu().sum() == 3
    virtual(3)
    assert (kept + 1).device == torch.device("vgpu:2")


def test_fewer_bytes_than_are_in_use_leave_nothing_free(virtual):
    virtual(1, "5 MB")
    kept = torch.ones(500_000, device="vgpu:0")
    virtual(1, "1 MB")
    with pytest.raises(torch.OutOfMemoryError, match="of which 0 bytes is free"):
        torch.ones(1, device="vgpu:0")
    assert kept.cpu().sum().item() == 500_000
    assert torch.vgpu.mem_get_info(0) == (0, 1_000_000)


# --- the module of the devices, as torch.cuda


def test_the_module_of_a_device_counts_and_names_devices(devs):
    gpu = torch.get_device_module(devs[1])
    assert gpu is torch.get_device_module("vgpu:0") is torch.vgpu
    assert gpu.is_available() and gpu.device_count() == 3
    assert gpu.current_device() == 0
    assert gpu.get_device_name(1) == "virtual A100"


def test_the_current_device_is_that_of_a_block(devs):
    with torch.vgpu.device(2):
        assert torch.ones(1, device="vgpu").device == devs[2]
        assert torch.vgpu.current_device() == 2
    assert torch.vgpu.current_device() == 0
    torch.vgpu.set_device(devs[1])
    try:
        assert torch.ones(1, device="vgpu").device == devs[1]
    finally:
        torch.vgpu.set_device(0)


# --- beside real GPUs


@pytest.fixture
def real(monkeypatch):
    """Pretend that the machine has GPUs, and that no virtual ones were made yet."""

    def pretend(count):
        monkeypatch.setattr(machine, "count", 0)
        monkeypatch.setattr(selection, "chosen", [])
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "NVIDIA H100")
        monkeypatch.setattr(selection, "_touch", lambda index: None)

    return pretend


def kinds(found):
    return [device.type for device in found]


def test_real_gpus_are_used_where_there_are_enough(real, capsys):
    real(2)
    found = selection.devices(2)
    assert found == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert capsys.readouterr().out == "2 GPUs: NVIDIA H100. All is measured.\n"


def test_one_real_gpu_is_not_enough_for_two_devices(real, capsys):
    real(1)
    assert kinds(selection.devices(2)) == ["vgpu", "vgpu"]
    assert "2 virtual GPUs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wish", [{"memory": "8 GB"}, {"gpu": "T4"}, {"link": "PCIe3"}, {"launch": 0}]
)
def test_who_asks_for_other_hardware_gets_a_model_of_it(real, wish):
    real(2)
    assert kinds(selection.devices(1, quiet=True, **wish)) == ["vgpu"]


def test_a_process_keeps_its_virtual_gpus(real):
    real(2)
    selection.devices(4, quiet=True)
    assert kinds(selection.devices(1, quiet=True)) == ["vgpu"]


def test_who_has_used_real_gpus_is_told_that_their_gradients_end(real, capsys):
    real(2)
    selection.devices(2)
    selection.devices(4)
    assert "no gradients on real GPUs: restart the kernel" in capsys.readouterr().out


def test_data_parallel_takes_virtual_gpus_where_there_are_real_ones(real, monkeypatch):
    real(1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    devs = selection.devices(2, quiet=True)
    parallel = torch.nn.DataParallel(torch.nn.Linear(4, 2).to(devs[0]), devs)
    out = parallel(torch.ones(6, 4, device=devs[0]))
    assert (out.shape, out.device) == ((6, 2), devs[0])


def test_virtual_and_cpu_tensors_do_not_mix(devs):
    words = "Expected all tensors to be on the same device.*vgpu:1 and cpu"
    with pytest.raises(RuntimeError, match=words):
        torch.ones(2, device=devs[1]) + torch.ones(2)
