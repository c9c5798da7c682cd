"""Advice to programs that ask for a GPU: to which words it is given, and to which not.

The programs run with the PyTorch that is here. Words that another build or machine says
are recorded, and each says where.
"""

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from course_lib.accelerators import missing, selection
from course_lib.launching.launcher import launch
from tests.test_outcome import message, raised

PROGRAMS = {
    "nccl": 'dist.init_process_group("nccl")',
    "two backends": 'dist.init_process_group("cpu:gloo,cuda:nccl")',
    "device_id": 'dist.init_process_group("gloo", device_id=torch.device("cuda:0"))',
    "set_device": "torch.cuda.set_device(rank)",
    ".to(rank)": "net.to(rank)",
    ".to(1)": "torch.ones(2).to(1)",
    ".cuda()": "torch.ones(2).cuda()",
    "net.cuda(rank)": "net.cuda(rank)",
    "DataParallel": "nn.DataParallel(net).cuda()",
    "cuda": 'torch.ones(2, device="cuda")',
    "in a block": 'with torch.device("cuda"): torch.ones(2)',
    "default": 'torch.set_default_device("cuda"); torch.ones(2)',
    "FloatTensor": "torch.ones(2).type(torch.cuda.FloatTensor)",
    "current_device": "torch.cuda.current_device()",
    "synchronize": "torch.cuda.synchronize()",
    "with device": "with torch.cuda.device(0): pass",
    "properties": "torch.cuda.get_device_properties(0)",
    "peak": "torch.cuda.reset_peak_memory_stats()",
    "Event": "torch.cuda.Event(enable_timing=True).record()",
    "Stream": "torch.cuda.Stream()",
    "torch.Stream": 'torch.Stream("cuda")',
    "CUDAGraph": "torch.cuda.CUDAGraph()",
    "Generator": 'torch.Generator(device="cuda")',
    "pin_memory": "torch.ones(2).pin_memory()",
    "pinned factory": "torch.ones(2, pin_memory=True)",
    "mesh": 'dist.device_mesh.init_device_mesh("cuda", (1,))',
    "device_ids": 'dist.init_process_group("gloo"); DDP(net, device_ids=[rank])',
    "index": "torch.accelerator.set_device_index(rank)",
}
SYNC_BATCH_NORM = {
    "SyncBatchNorm": 'dist.init_process_group("gloo");'
    " nn.SyncBatchNorm(2)(torch.ones(2, 2))",
    "SyncBatchNorm in DDP": 'dist.init_process_group("gloo"); DDP(nn.SyncBatchNorm(2))',
}
ACCELERATOR = {
    "backend": "dist.get_default_backend_for_device(None)",
    "device": 'torch.device(f"{None}:{rank}")',
    "FSDP": 'dist.init_process_group("gloo"); FSDP(net)(x)',
}
# these say by a warning that they do nothing, and the program goes on
WARN = {
    "GradScaler": 'torch.amp.GradScaler("cuda")',
    "autocast": 'with torch.autocast("cuda"): net(x)',
    "loader": "list(DataLoader(torch.ones(4), pin_memory=True))",
    "DataParallel on the CPU": "nn.DataParallel(net, device_ids=[0, 1])(x)",
}
START = """
import warnings, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
warnings.simplefilter("ignore")
net, x = nn.Linear(2, 2), torch.ones(1, 2)
"""
needs_none = pytest.mark.skipif(
    torch.cuda.device_count() > 0, reason="needs a machine without GPUs"
)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each program's error says, as in a rank; "" if it ends well."""
    file = tmp_path_factory.mktemp("saved") / "cuda.pt"
    programs = PROGRAMS | SYNC_BATCH_NORM | ACCELERATOR | WARN
    programs |= {"load": f"torch.load({str(file)!r})"}
    start = START

    def each(rank, world_size):
        import torch
        import torch.distributed as dist

        tag = torch.serialization.location_tag
        torch.serialization.location_tag = lambda storage: "cuda:0"
        torch.save(torch.ones(2), file)
        torch.serialization.location_tag = tag
        names, texts = {"rank": rank}, {}
        exec(start, names)
        for name, program in programs.items():
            try:
                exec(program, names)
                texts[name] = ""
            except Exception as error:
                texts[name] = f"{type(error).__name__}: {error}"
            torch.set_default_device(None)
            if dist.is_initialized():
                dist.destroy_process_group()
        return texts

    return launch(each, world_size=1)[0]


@needs_none
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_gpus_is_told_how_ranks_compute_here(said, name):
    assert missing.help_ranks(said[name], 2) == missing._RANKS, said[name]


@needs_none
@pytest.mark.parametrize("name", SYNC_BATCH_NORM)
def test_synchronized_batch_norm_is_told_to_stay_out(said, name):
    wanted = "SyncBatchNorm needs GPUs: leave convert_sync_batchnorm out here."
    assert missing.help_ranks(said[name], 2) == wanted, said[name]
    assert missing.help_ranks(said[name], 2, virtual=2) == wanted


@needs_none
@pytest.mark.parametrize("wrap", [lambda net: net, DistributedDataParallel])
def test_virtual_gpus_refuse_synchronized_batch_norm_by_the_same_sentence(wrap):
    def each(rank, world_size):
        import torch
        import torch.distributed as dist
        from torch import nn

        devices = selection.devices(world_size, quiet=True)
        dist.init_process_group()
        net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2))
        net = wrap(net.to(devices[rank]))
        x = torch.rand(4, 2, device=devices[rank])
        try:
            net(x)
        except NotImplementedError as error:
            text = str(error)
        # what helps
        return text, nn.BatchNorm1d(2).to(devices[rank])(x).shape

    for text, shape in launch(each, world_size=2):
        assert text == missing.SYNC_BATCH_NORM
        assert shape == (4, 2)


@needs_none
@pytest.mark.parametrize("name", ACCELERATOR)
def test_a_program_for_an_accelerator_is_told_of_virtual_gpus(said, name):
    if not said[name]:  # a build with CUDA names it even where there is none
        pytest.skip("this PyTorch goes on")
    assert "call cl.devices(world_size) first" in missing.help_ranks(said[name], 2)


@needs_none
def test_a_file_of_a_gpu_is_read_to_the_cpu_or_to_a_virtual_gpu(said):
    assert 'torch.load(…, map_location="cpu")' in missing.help_ranks(said["load"], 2)
    there = missing.help_ranks(said["load"], 2, virtual=3)
    assert there.startswith("There is no CUDA GPU here, but 3 virtual GPUs: torch.load")
    assert "map_location=devices[0]" in there


@needs_none
@pytest.mark.parametrize("name", WARN)
def test_what_only_warns_ends_well(said, name):
    assert said[name] == ""


# words of torch 2.11.0+cu130 and 2.15.0+cu132 without a driver; the third is from a
# machine with a driver and no GPU that may be seen, of PyTorch's source
RECORDED = [
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
    " and installed a driver from http://www.nvidia.com/Download/index.aspx",
    "ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    "No CUDA GPUs are available",
    "nccl2 requires at least one CUDA device",
    "device_id cuda:0 is out of range. Please use a device index less than the number"
    " of accelerators available: 0.",
    "CUDA error: CUDA driver version is insufficient for CUDA runtime version\nSearch"
    " for `cudaErrorInsufficientDriver' in https://docs.nvidia.com/cuda/",
    "invalid argument to reset_peak_memory_stats",
]


@pytest.fixture
def gpus(monkeypatch):
    """Set how many GPUs PyTorch finds."""
    return lambda count: monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize("text", RECORDED)
def test_a_build_with_cuda_says_it_in_other_words(gpus, text):
    gpus(0)
    assert missing.help_ranks(f"RuntimeError: {text}", 2) == missing._RANKS
    assert '"vgpu:0"' in missing.help_devices(text, 1)
    gpus(1)
    assert missing.help_ranks(text, 1) in ("", missing._RANKS_UNUSABLE)
    assert missing.help_devices(text, 1) == ""


# benchmarks/gpu/recorded/H100.json: torch 2.11.0+cu130, two ranks on one GPU
DUPLICATE = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93, invalid"
    " usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast"
    " error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 60"
)
# the words that NCCL 2.30.7 holds in their place; not run
MULTIPLE = (
    "Last error:\nMultiple Ranks are using the same GPU/Partition. Set"
    " NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration."
)
ORDINAL = (
    "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have"
    " enough GPUs?"
)


@pytest.mark.parametrize("text", [DUPLICATE, MULTIPLE, ORDINAL])
def test_ranks_that_outnumber_the_gpus_are_told_how_many_there_are(gpus, text):
    gpus(1)
    assert missing.help_ranks(text, 2) == (
        "nccl needs a GPU for each rank, and there is 1 GPU for 2 ranks: world_size=1,"
        ' or init_process_group("gloo"), whose ranks may share a GPU.'
    )
    gpus(2)
    assert "there are 2 GPUs for 4 ranks: world_size=2" in missing.help_ranks(text, 4)
    assert missing.help_ranks(text, 2) == ""


def test_gloo_s_refusal_to_send_a_cuda_tensor_is_explained_beside_gpus_alone(gpus):
    # benchmarks/gpu/recorded/H200.json: torch.distributed.pipelining, two on one GPU
    text = "gloo/transport/tcp/pair.cc:339] writev [127.0.0.1]:34704: Bad address"
    gpus(1)
    assert "send x.cpu()" in missing.help_ranks(text, 2)
    gpus(0)
    assert missing.help_ranks(text, 2) == ""


def test_nothing_of_an_accelerator_is_told_of_by_the_program_around_it(gpus):
    gpus(0)
    text = "'NoneType' object has no attribute 'type'"
    asks = "acc = torch.accelerator.current_accelerator()\nprint(acc.type)\n"
    assert "virtual GPUs" in missing.help_ranks(text, 2, source=asks)
    assert missing.help_ranks(text, 2, source="print(net.type)") == ""


@pytest.mark.parametrize(
    "text", ["needs 2 GPUs", "CUDA is not available", "no accelerator. Exiting."]
)
def test_a_rank_that_gives_up_for_want_of_a_gpu_is_told_of_virtual_ones(gpus, text):
    gpus(0)
    assert "call cl.devices(world_size) first" in missing.help_exit(text)
    assert missing.help_exit(text, virtual=2) == ""
    gpus(1)
    assert missing.help_exit(text) == ""


def test_an_end_for_another_reason_gets_no_advice(gpus):
    gpus(0)
    assert missing.help_exit("loss is nan, stopping") == ""
    for text in ("shape '[7]' is invalid", "'NoneType' object has no attribute 'type'"):
        assert missing.help_ranks(text, 2) == missing.help_devices(text, 2) == ""


def test_a_launch_says_it_once_below_the_other_ranks(gpus):
    gpus(0)
    text = message(raised(0, 1.0, text=RECORDED[0]), raised(1, 1.1, text=RECORDED[0]))
    assert text.count(missing._RANKS) == 1
    assert text.splitlines()[-1] == missing._RANKS
    assert "rank 1 raised the same." in text
