"""The rows of torch: its version, its CUDA, and what ranks talk by."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field, replace

from course_lib.checkup.table import Finding
from course_lib.system import gpus, host, torch_versions

_REINSTALL = "rm -rf .venv && make setup"
_UNUSED = "the GPUs are not used"
# run by another process, because the answer starts CUDA; all GPUs are counted
_QUESTION = """
import json, os
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
import torch
gpus, trouble = [], ""
try:
    torch.cuda.init()
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        uuid = getattr(gpu, "uuid", index)
        gpus.append([str(index), f"GPU-{uuid}", gpu.name, gpu.total_memory >> 20])
except Exception as error:
    trouble = str(error).partition("\\n")[0]
print(json.dumps({"gpus": gpus, "trouble": trouble}))
"""


@dataclass(frozen=True)
class Cuda:
    """What CUDA said in another process: its GPUs, or why it did not start."""

    gpus: list[gpus.Gpu] = field(default_factory=list)
    trouble: str = ""


def survey_gpus() -> tuple[gpus.Survey, Cuda]:
    """Return what nvidia-smi tells of GPUs; where it tells none, what CUDA tells."""
    survey, cuda = gpus.survey(), Cuda()
    if survey.has_driver and _built_for():
        cuda = _ask()
    return replace(survey, gpus=survey.gpus or cuda.gpus), cuda


def _built_for():
    """Return the CUDA that torch is built for, "13.0"; "" without one, or no torch."""
    try:
        import torch
    except (ImportError, OSError):
        return ""
    return torch.version.cuda or ""


def _ask():
    text = host.answer(sys.executable, "-c", _QUESTION, seconds=60)
    try:
        told = json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        return Cuda(trouble="it ended without an answer")
    return Cuda([gpus.Gpu(*row) for row in told["gpus"]], told["trouble"])


def torch_rows(survey: gpus.Survey, cuda: Cuda) -> list[Finding]:
    """Return the rows of torch, gloo and nccl, which only torch can tell."""
    try:
        import torch
        import torch.distributed as dist
    except (ImportError, OSError) as error:
        what = str(error).partition("\n")[0]
        return [
            Finding("torch", "", f"no lesson runs: {what}", "make setup"),
            Finding("gloo", "", "ranks on CPUs cannot talk", "make setup"),
            Finding("nccl", "", "ranks on GPUs cannot talk", "make setup"),
        ]
    here = dist.is_available()
    gloo = Finding("gloo", "", "ranks on CPUs cannot talk", _REINSTALL)
    if here and dist.is_gloo_available():
        gloo = Finding("gloo", "in torch")
    row = _torch(str(torch.__version__), torch.version.cuda, survey, cuda)
    return [row, gloo, _nccl(here and dist.is_nccl_available(), survey)]


def _torch(version, build, survey, cuda):
    """Return the row of a torch of this version, built for this CUDA or for none."""
    known = torch_versions.supported()
    if known and known.is_old(version):
        cost = f"{version} is too old, the course needs {known.words}"
        return Finding("torch", "", cost, torch_versions.install())
    lacks = [_build(build, survey, cuda)]
    if known and known.is_new(version):
        cost = f"not tested with this course: tested are {known.words}"
        lacks.append((cost, f"if a lesson fails: {torch_versions.install()}"))
    costs, remedies = ("; ".join(filter(None, column)) for column in zip(*lacks))
    return Finding("torch", version, costs, remedies)


def _build(build, survey, cuda):
    """Return what the build of torch costs on this machine, and the remedy."""
    if not build:
        is_wasted = survey.gpus or survey.devices
        return (f"built for CPUs: {_UNUSED}", _REINSTALL) if is_wasted else ("", "")
    if not survey.has_driver:
        cost = f"built for CUDA {build}, without an NVIDIA driver: it computes on CPUs"
        return cost, "none needed; with a GPU in this machine: install its driver"
    if not cuda.trouble:
        return "", ""
    found = re.search(r"too old \(found version (\d+)\)", cuda.trouble)
    if found:
        major, minor = gpus.cuda_version(int(found[1]))
        cost = f"built for CUDA {build}, the NVIDIA driver runs up to {major}.{minor}"
        return f"{cost}: {_UNUSED}", f"a newer driver, or a torch for CUDA {major}"
    if "no NVIDIA driver" in cuda.trouble:
        cost = f"its CUDA {build} finds no running NVIDIA driver: {_UNUSED}"
        return cost, "install or start it; in a container: docker run --gpus all"
    cost = f"its CUDA {build} does not start ({cuda.trouble}): {_UNUSED}"
    return cost, "start Python anew, then the machine; nvidia-smi tells of its GPUs"


def _nccl(here, survey):
    if here:
        return Finding("nccl", "in torch")
    cost, remedy = "nothing here: it needs GPUs", "torch brings it, without CPU=1"
    if survey.gpus:
        cost, remedy = "ranks on GPUs cannot talk", _REINSTALL
    return Finding("nccl", "", cost, remedy)
