"""Files, and tensors that other libraries take."""

import copy
import io
import pickle
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.capabilities.rows import refused, works


@works(
    "`torch.save`, `torch.load(map_location=…)`, pickle, `copy.deepcopy`",
    "A file remembers the device; `map_location` is a name, a device, a dict or a"
    " function.",
)
def files(devs):
    state, file = nn.Linear(2, 1).to(devs[1]).state_dict(), io.BytesIO()
    torch.save(state, file)
    for location, want in (
        *((None, devs[1]), ("cpu", torch.device("cpu")), ("vgpu:2", devs[2])),
        *((devs[0], devs[0]), ({"vgpu:1": "vgpu:2"}, devs[2])),
        (lambda storage, location: storage, torch.device("cpu")),
        (lambda storage, location: None, devs[1]),
    ):
        file.seek(0)
        loaded = torch.load(file, map_location=location)["weight"]
        assert loaded.device == want
        assert loaded.tolist() == state["weight"].tolist()
    for same in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        assert same["weight"].device == devs[1]


@works(
    "safetensors: `save_file(model.state_dict(), …)`, `load_file(…)`",
    "`load_state_dict` takes what was loaded to wherever the model is;"
    " `load_file(…, device=1)` loads to device 1.",
)
def safetensors(devs):
    model = nn.Linear(2, 1).to(devs[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_file(model.state_dict(), path)
        other = nn.Linear(2, 1).to(devs[2])
        other.load_state_dict(load_file(path))
        assert load_file(path, device=1)["weight"].device == devs[1]
    assert other.weight.tolist() == model.weight.tolist()
    assert other.weight.device == devs[2]


@refused(
    'safetensors: `load_file(…, device="vgpu:1")`',
    "device vgpu:1 is invalid",
    "safetensors' own words; give the number, `device=1`.",
)
def safetensors_device(devs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_file({"x": torch.ones(2)}, path)
        load_file(path, device="vgpu:1")


@refused(
    "`x.numpy()`, `numpy.asarray(x)`",
    "can't convert vgpu:1 device type tensor to numpy. Use Tensor.cpu() to copy the"
    " tensor to host memory first.",
)
def to_numpy(devs):
    torch.ones(2, device=devs[1]).numpy()


@refused(
    "`torch.from_dlpack(x)`",
    "Unknown device type vgpu for Dlpack",
    "PyTorch's own words; `x.cpu()` can be given away.",
)
def dlpack(devs):
    torch.from_dlpack(torch.ones(2, device=devs[1]))
