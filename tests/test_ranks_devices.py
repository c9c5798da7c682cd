"""Ranks and the virtual GPUs of the notebook."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import course_lib as cl


def test_a_rank_may_name_the_devices_of_the_notebook(virtual):
    devs = virtual(3, "5 MB")

    def work(rank, world_size):
        gpu = torch.get_device_module(devs[2])
        return str(torch.ones(2, device=devs[2]).device), gpu.mem_get_info(devs[2])[1]

    assert cl.launch(work, world_size=1)[0] == ("vgpu:2", 5_000_000)


def test_a_tensor_of_a_virtual_gpu_arrives_on_the_cpu(virtual):
    (device,) = virtual(1)
    weights = torch.ones(3, device=device)

    def work(rank, world_size):
        return weights + rank

    results = cl.launch(work, world_size=2)
    assert [each.tolist() for each in results] == [[1, 1, 1], [2, 2, 2]]
    assert {each.device.type for each in results} == {"cpu"}


def test_a_program_that_asks_torch_for_its_accelerator_runs_unchanged():
    def work(rank, world_size):
        d = cl.devices(world_size)[rank]
        acc = torch.accelerator.current_accelerator()
        dist.init_process_group(dist.get_default_backend_for_device(acc))
        net = DistributedDataParallel(nn.Linear(4, 2).to(d), device_ids=[d])
        net(torch.randn(2, 4, device=d)).sum().backward()
        return net.module.weight.grad

    first, second = cl.launch(work, world_size=2)
    assert torch.equal(first, second) and first.abs().sum() > 0
