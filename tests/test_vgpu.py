"""Tensors on virtual GPUs: made, moved, printed, indexed and mixed as on CUDA."""

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

FACTORIES = {
    "ones": lambda d: torch.ones(2, 3, device=d),
    "zeros": lambda d: torch.zeros(2, dtype=torch.int64, device=d),
    "full": lambda d: torch.full((2,), 7.0, device=d),
    "arange": lambda d: torch.arange(1, 7, 2, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "scalar": lambda d: torch.tensor(2.5, device=d),
    "as_tensor": lambda d: torch.as_tensor([1.0, 2.0], device=d),
    "rand": lambda d: torch.rand(3, device=d),
    "randn": lambda d: torch.randn(3, 4, device=d),
    "randint": lambda d: torch.randint(0, 9, (4,), device=d),
    "randperm": lambda d: torch.randperm(5, device=d),
    "normal": lambda d: torch.empty(4, device=d).normal_(),
    "ones_like": lambda d: torch.ones_like(torch.ones(2), device=d),
    "new": lambda d: torch.ones(2, device=d).new_full((3,), 2),
    "tril": lambda d: torch.tril_indices(3, 3, device=d),
    "complex": lambda d: torch.zeros(2, dtype=torch.complex64, device=d),
    "default": lambda d: _under(d, lambda: torch.ones(3)),
}


def _under(device, make):
    with torch.device(device):
        return make()


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_a_factory_makes_on_the_device_what_it_makes_on_the_cpu(devs, make):
    torch.manual_seed(0)
    want = make("cpu")
    torch.manual_seed(0)
    got = make("vgpu:1")
    assert got.device == devs[1] and got.dtype == want.dtype
    assert_close(got.cpu(), want, rtol=0, atol=0)


def test_memory_is_asked_for_without_numbers_by_shape_alone(devs):
    got = torch.empty_strided((2, 3), (1, 2), dtype=torch.float16, device=devs[2])
    assert (got.shape, got.stride()) == ((2, 3), (1, 2))
    assert (got.dtype, got.device) == (torch.float16, devs[2])


def test_a_tensor_moves_from_and_to_every_device(devs):
    ends = [*devs, torch.device("cpu")]
    for source in ends:
        for target in ends:
            there = torch.arange(6.0, device=source).view(2, 3).to(target)
            assert there.device == target
            assert there.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_move_to_where_a_tensor_is_gives_the_tensor_itself(devs):
    tensor = torch.ones(2, device=devs[1])
    assert tensor.to(devs[1]) is tensor
    assert tensor.to(devs[1], copy=True) is not tensor
    assert torch.ones(2).to("vgpu").device == devs[0]


def test_a_move_changes_the_type_on_the_way_and_keeps_the_strides(devs):
    source = torch.ones(2, 3).t()
    there = source.to(devs[1], torch.float16)
    assert (there.dtype, there.stride()) == (torch.float16, source.stride())
    assert there.to("cpu", torch.float32).dtype == torch.float32


def test_a_move_is_part_of_the_graph(devs):
    leaf = torch.ones(3, requires_grad=True)
    (leaf.to(devs[1]).to(devs[2]) * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2] and leaf.grad.device.type == "cpu"


def test_a_copy_into_a_tensor_crosses_devices(devs):
    target = torch.zeros(3, device=devs[1])
    target.copy_(torch.arange(3.0, device=devs[0]))
    assert target.tolist() == [0, 1, 2]
    target[1] = torch.tensor(9.0)
    assert target.tolist() == [0, 9, 2] and target.device == devs[1]


def test_a_device_is_the_type_and_the_index_of_a_tensor(devs):
    tensor = torch.ones(2, device="vgpu:2")
    assert (tensor.device.type, tensor.device.index) == ("vgpu", 2)
    assert tensor.get_device() == 2 and not tensor.is_cuda and not tensor.is_cpu
    assert isinstance(tensor, torch.Tensor)


# --- printing


def test_a_tensor_prints_its_numbers_and_its_device(devs):
    tensor = torch.tensor([[1.0, 2.5]], device=devs[1])
    assert repr(tensor) == "tensor([[1.0000, 2.5000]], device='vgpu:1')"
    half = tensor.half()
    want = "tensor([[1.0000, 2.5000]], device='vgpu:1', dtype=torch.float16)"
    assert str(half) == want


def test_a_tensor_with_a_history_prints_it(devs):
    leaf = torch.ones(2, device=devs[0], requires_grad=True)
    assert repr(leaf) == "tensor([1., 1.], device='vgpu:0', requires_grad=True)"
    assert "device='vgpu:0', grad_fn=<MulBackward0>" in repr(leaf * 2)


def test_a_parameter_prints_as_one(devs):
    parameter = torch.nn.Linear(1, 1, device=devs[1]).bias
    first, second = repr(parameter).split("\n")
    assert first == "Parameter containing:" and second.startswith("tensor([")
    assert second.endswith("], device='vgpu:1', requires_grad=True)")


def test_a_large_an_empty_and_a_single_tensor_print(devs):
    assert "..., " in repr(torch.zeros(5000, device=devs[0]))
    empty = torch.ones(0, 3, device=devs[0])
    assert repr(empty) == "tensor([], device='vgpu:0', size=(0, 3))"
    assert repr(torch.tensor(3, device=devs[0])) == "tensor(3, device='vgpu:0')"


def test_numbers_are_read_as_from_a_gpu(devs):
    single = torch.tensor(2.0, device=devs[1])
    assert f"{single:.2f}" == "2.00" and float(single) == 2 and single.item() == 2
    assert [x.item() for x in torch.arange(3, device=devs[1])] == [0, 1, 2]
    assert bool(single > 1) and int(single) == 2
    with pytest.raises(TypeError, match="vgpu:1 device type tensor to numpy"):
        single.numpy()


# --- copies


def test_a_deep_copy_has_its_own_memory_on_the_same_device(devs):
    leaf = torch.ones(2, device=devs[1], requires_grad=True)
    other = copy.deepcopy(leaf)
    with torch.no_grad():
        other.add_(1)
    assert leaf.tolist() == [1, 1] and other.tolist() == [2, 2]
    assert other.device == devs[1] and other.requires_grad


@pytest.mark.parametrize("make", [torch.nn.Parameter, lambda tensor: tensor])
def test_a_deep_copy_has_the_gradient_that_pytorch_gives_it(devs, make):
    copied = []
    for device in ("cpu", devs[1]):
        original = make(torch.ones(2, device=device, requires_grad=True))
        (3 * original).sum().backward()
        copied.append(copy.deepcopy(original))
    plain, there = copied
    assert there.requires_grad and type(plain) is not type(there)
    assert (there.grad is None) == (plain.grad is None)
    kinds = [isinstance(one, torch.nn.Parameter) for one in copied]
    assert kinds[0] == kinds[1]


def test_a_pickled_tensor_comes_back_to_its_device(devs):
    leaf = torch.arange(4.0, device=devs[2], requires_grad=True)
    back = pickle.loads(pickle.dumps(leaf))
    assert back.device == devs[2] and back.requires_grad
    assert back.tolist() == [0, 1, 2, 3]


REPLACED = {
    "torch.tensor": lambda: torch.tensor,
    "torch.as_tensor": lambda: torch.as_tensor,
    "torch.empty": lambda: torch.empty,
    "Tensor.to": lambda: torch.Tensor.to,
    "torch.compile": lambda: torch.compile,
    "torch.Generator": lambda: torch.Generator,
    "torch.Event": lambda: torch.Event,
    "torch.accelerator": lambda: torch.accelerator.synchronize,
}


@pytest.mark.parametrize("find", REPLACED.values(), ids=REPLACED)
def test_what_stands_in_place_of_pytorchs_own_travels_by_its_name(devs, find):
    data = pickle.dumps(find())
    assert len(data) < 100 and pickle.loads(data) is find()


# --- in place, views, out=, and what depends on the numbers


def test_a_view_shares_its_numbers_with_its_base(devs):
    base = torch.zeros(2, 3, device=devs[1])
    for view in (base[0], base.t()[0], base.view(6)[1:3], base.unsqueeze(0)):
        view.add_(1)
    assert base.tolist() == [[3, 3, 3], [2, 1, 1]]
    assert base[0]._base is base


def test_an_operator_in_place_returns_the_tensor_itself(devs):
    tensor = torch.tensor([-1.0, 4.0], device=devs[1])
    assert tensor.relu_() is tensor and tensor.sqrt_() is tensor
    tensor += 1
    tensor[0] = 5
    assert tensor.tolist() == [5, 3]


def test_an_operator_in_place_changes_the_version_for_autograd(devs):
    leaf = torch.ones(2, device=devs[1], requires_grad=True)
    product = leaf.exp()
    product.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_out_is_written_to_and_takes_its_new_shape(devs):
    out = torch.empty(0, device=devs[1])
    back = torch.add(torch.ones(3, device=devs[1]), 1, out=out)
    assert back is out and out.shape == (3,)
    assert out.tolist() == [2, 2, 2]


OUT = {
    "det": torch.linalg.det,
    "inv": torch.linalg.inv,
    "msort": torch.msort,
}


@pytest.mark.parametrize("operator", OUT.values(), ids=OUT)
def test_out_is_written_to_by_operators_made_of_others(devs, operator):
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    want = operator(x)
    out = torch.empty(0, dtype=want.dtype, device=devs[1])
    assert operator(x.to(devs[1]), out=out) is out
    assert_close(out.cpu(), want)


def test_a_result_may_have_a_shape_that_depends_on_the_numbers(devs):
    tensor = torch.tensor([3, 0, 3, 5], device=devs[1])
    for got in (tensor.nonzero(), tensor[tensor > 0], tensor.unique()):
        assert got.device == devs[1]
    assert tensor[tensor > 0].tolist() == [3, 3, 5]
    assert tensor.unique().tolist() == [0, 3, 5]
    assert torch.repeat_interleave(tensor).numel() == 11


def test_an_index_may_be_on_the_cpu_or_on_the_device(devs):
    table, rows = torch.arange(6.0, device=devs[1]).view(3, 2), torch.tensor([2, 0])
    for index in (rows, rows.to(devs[1]), [2, 0], torch.tensor([True, False, True])):
        assert {tuple(row) for row in table[index].tolist()} == {(4, 5), (0, 1)}
    table[rows] = 0
    assert table.sum().item() == 5


def test_the_same_seed_gives_the_numbers_of_the_cpu(devs):
    torch.manual_seed(3)
    want = torch.randn(4), torch.nn.functional.dropout(torch.ones(9))
    torch.manual_seed(3)
    got = torch.randn(4, device=devs[1])
    dropped = torch.nn.functional.dropout(torch.ones(9, device=devs[2]))
    assert_close((got.cpu(), dropped.cpu()), want, rtol=0, atol=0)
