"""Row 1, where a program asks for a GPU and there is none: PyTorch's words and ours."""

import re

import pytest
import torch

from tests.fault_table import case
from tests.faults.cells import failed
from tests.kernels import error

pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() > 0, reason="needs a machine without GPUs"
)
# what a PyTorch with CUDA says; the second to a process that was forked
CUDA_BUILD = "Found no NVIDIA driver|CUDA in forked subprocess"
SENTENCE = (
    "PyTorch finds no CUDA GPU here, so ranks compute on the CPU:"
    ' init_process_group("gloo"), and no set_device, no .cuda() or .to(rank), no'
    " device_ids."
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        case(
            1,
            "nccl without a GPU",
            'dist.init_process_group("nccl")',
            "NCCL|nccl2 requires",
        ),
        case(
            *(1, "set_device without a GPU", "torch.cuda.set_device(rank)"),
            f"_cuda_setDevice|{CUDA_BUILD}",
        ),
        case(
            *(1, ".to(rank) without a GPU", "torch.nn.Linear(4, 2).to(rank)"),
            f"none is available|{CUDA_BUILD}",
        ),
        case(
            *(1, '"cuda" without a GPU', 'torch.ones(2, device="cuda")'),
            f"not compiled with CUDA|{CUDA_BUILD}",
        ),
        case(
            *(1, "device_ids without a GPU", "DDP(torch.nn.Linear(4, 2), [rank])"),
            "device_ids and output_device arguments only work with",
        ),
    ],
)
def test_gpu_code_is_shown_with_its_line_and_what_to_write(kernel, line, words):
    start = 'dist.init_process_group("gloo"); ' if "DDP" in line else ""
    cell = f"""from torch.nn.parallel import DistributedDataParallel as DDP

def train(rank, world_size):
    now()
    {start}{line}

cl.launch(train)"""
    text = failed(kernel, cell)
    head = text.split("\n\n")[0]
    assert re.search(words, head), head
    assert f"-->   5      {start}{line}" in text
    assert text.splitlines().count(SENTENCE) == 1


def test_a_script_in_a_rank_gets_the_advice(kernel, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\ndef main():\n    torch.ones(2).cuda()\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    cell = f"""import runpy

def train(rank, world_size):
    now()
    runpy.run_path({str(script)!r}, run_name="__main__")

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "-->   4      torch.ones(2).cuda()" in text and SENTENCE in text


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ('print("Unable to locate sufficient 2 gpus. Exiting."); sys.exit()', 0),
        ('sys.exit("CUDA is not available")', 1),
    ],
)
def test_a_program_that_gives_up_without_an_accelerator_is_told_of_virtual_gpus(
    kernel, leave, code
):
    cell = f"""def train(rank, world_size):
    if torch.accelerator.device_count() < 2:
        now()
        {leave}

cl.launch(train)"""
    text = failed(kernel, cell)
    assert f"left by sys.exit({code}) before train returned" in text
    assert "no accelerator here: call cl.devices(world_size) first in each" in text


@pytest.fixture(scope="module")
def with_devices(kernel):
    """A kernel with two virtual GPUs."""
    assert error(kernel.run("devices = cl.devices(2)")) is None
    return kernel


@pytest.mark.parametrize(
    "line",
    [
        'torch.ones(2).to("cuda:0")',
        "torch.ones(2).cuda()",
        "torch.cuda.set_device(0)",
        'torch.device("cuda", 0) and torch.zeros(2, device="cuda")',
    ],
)
def test_cuda_beside_virtual_gpus_in_the_notebook_names_these(with_devices, line):
    text = error(with_devices.run(f"x = 1\n{line}"))
    assert f"----> 2 {line}" in text
    assert re.search(f"not compiled|_cuda_setDevice|{CUDA_BUILD}", text)
    assert text.rstrip().endswith(
        "There is no CUDA GPU here, but 2 virtual GPUs: devices[0] or"
        ' "vgpu:0" in place of "cuda" and .cuda(), torch.vgpu in place of torch.cuda,'
        ' "gloo" in place of "nccl".'
    )


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("torch.ones(2) @ torch.ones(3)", "tensor"),
        ('assert False, "wrong"', "wrong"),
        ("torch.no_such_name", "'no_such_name'"),
    ],
)
def test_other_errors_beside_virtual_gpus_stay_as_they_are(with_devices, line, end):
    text = error(with_devices.run(line))
    assert f"----> 1 {line}" in text and end in text.splitlines()[-1]
    assert "virtual GPUs" not in text
