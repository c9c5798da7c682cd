"""Ranks and the virtual GPUs of the notebook."""

import torch

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
