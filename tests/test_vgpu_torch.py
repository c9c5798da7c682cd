"""What virtual GPUs lean on in PyTorch beyond its documented interface.

Each function says in its first words what another PyTorch has changed if it fails.
"""

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import nn
from torch.utils import flop_counter

from course_lib.accelerators.vgpu import VirtualTensor

aten = torch.ops.aten


def backend(devs):
    """PyTorch no longer lets Python name a backend: there is no device "vgpu"."""
    assert torch._C._get_privateuse1_backend_name() == "vgpu"
    assert torch.device("vgpu:1").index == 1 and torch.vgpu.device_count() == 3


def boxed_factories(devs):
    """PyTorch no longer hands boxed factories to a Python fallback of PrivateUse1:
    torch.ones(device="vgpu:0") cannot work."""
    assert type(torch.arange(3, device=devs[0])) is VirtualTensor


def empty_kernels(devs):
    """PyTorch no longer takes aten::empty and aten::empty_strided from Python kernels
    of PrivateUse1: torch.empty(device="vgpu:0") cannot work."""
    assert type(torch.empty(3, device=devs[0])) is VirtualTensor
    made = torch.empty_strided((2, 2), (1, 2), device=devs[0])
    assert type(made) is VirtualTensor and made.stride() == (1, 2)


def copy_from(devs):
    """torch.tensor(..., device="vgpu:0") no longer copies by aten::_copy_from."""
    assert torch.tensor([1, 2], device=devs[0]).tolist() == [1, 2]


def wrapper_subclass(devs):
    """torch.Tensor._make_wrapper_subclass no longer makes tensors of another device:
    a virtual tensor cannot say where it is."""
    size = (2,), (1,), 0, None, torch.float32, torch.strided, devs[2]
    made = torch.Tensor._make_wrapper_subclass(VirtualTensor, *size)
    assert made.device == devs[2]


def torch_dispatch(devs):
    """PyTorch no longer brings the operators of a wrapper subclass to its
    __torch_dispatch__: nothing runs on a virtual GPU."""
    seen = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return args[0]

    size = (2,), (1,), 0, None, torch.float32, torch.strided, devs[1]
    torch.Tensor._make_wrapper_subclass(Own, *size).exp()
    assert seen == [aten.exp.default]


def one_thread(devs):
    """torch.autograd.set_multithreading_enabled(False) no longer keeps backward in the
    calling thread: backward works on vgpu:0 only."""
    x = torch.ones(2, device=devs[2], requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.device == devs[2]


def entry_of_backward(devs):
    """Backward no longer starts in torch.autograd._engine_run_backward: it is not kept
    in one thread, and fails beyond vgpu:0."""
    for start in (torch.autograd.backward, torch.autograd.grad):
        assert "_engine_run_backward(" in inspect.getsource(start)
    assert torch.autograd._engine_run_backward.__wrapped__ is not None


def guard(devs):
    """PyTorch no longer takes a device guard from Python, or asks it for something
    new: an error in a hook of backward may end the process."""
    assert hasattr(torch._C._acc, "register_python_privateuseone_device_guard")
    own = {name for name in vars(torch._C._acc.DeviceGuard) if name[0] != "_"}
    assert own == {"type_"}


def printing(devs):
    """torch._tensor_str prints in another way: virtual tensors do not print."""
    names = set(inspect.signature(torch._tensor_str._str_intern).parameters)
    assert {"inp", "tensor_contents"} <= names
    assert repr(torch.ones(1, device=devs[0])) == "tensor([1.], device='vgpu:0')"


def parameters(devs):
    """nn.Parameter no longer marks tensors of a subclass by `_is_param`: parameters on
    a virtual GPU are none."""
    made = nn.Parameter(torch.ones(2, device=devs[0]))
    assert type(made) is VirtualTensor and made._is_param
    assert isinstance(made, nn.Parameter)


def shallow_copies(devs):
    """Module.to no longer asks torch._has_compatible_shallow_copy_type or sets `.data`:
    it gives a module new parameters, which its optimizer does not know."""
    source = inspect.getsource(nn.Module._apply)
    assert "torch._has_compatible_shallow_copy_type(" in source
    model = nn.Linear(2, 2)
    before = model.weight
    assert model.to(devs[1]).weight is before is model.cpu().weight


def swapped(devs):
    """torch._C._swap_tensor_impl no longer exchanges two tensors in place: Module.to
    cannot keep its parameters."""
    one, two = torch.ones(1), torch.zeros(2)
    torch._C._swap_tensor_impl(one, two)
    assert (one.tolist(), two.tolist()) == ([0, 0], [1])


def data(devs):
    """torch._C.TensorBase.data is no descriptor any more: `.data` of a virtual tensor
    cannot be read or set."""
    descriptor = torch._C.TensorBase.data
    assert hasattr(descriptor, "__get__") and hasattr(descriptor, "__set__")
    x = torch.ones(2, device=devs[0], requires_grad=True)
    assert not x.data.requires_grad and x.data.device == devs[0]


def relabelled(devs):
    """A wrapper subclass can no longer be given another shape under
    _set_meta_in_tls_dispatch_include: resize_ and out= leave the old one."""
    x = torch.ones(2, device=devs[0])
    x.resize_(3, 4)
    assert x.shape == x.elem.shape == (3, 4)


def lazy_bits(devs):
    """torch._C._SetExcludeDispatchKeyGuard is gone or does something else: complex
    numbers are conjugated no more inside of operators, pinv is wrong."""
    x = torch.tensor([[1 + 2j, 3], [4j, 5]])
    want, got = torch.linalg.pinv(x), torch.linalg.pinv(x.to(devs[0])).cpu()
    assert torch.equal(want, got)


def composites(devs):
    """An operator that is a sequence of others no longer decomposes from Python:
    inference mode does not work on a virtual GPU."""
    assert aten.linear.default._can_decompose() or aten.matmul.default._can_decompose()
    with torch.inference_mode():
        x = torch.ones(2, 2, device=devs[0])
        assert torch.matmul(x, x).tolist() == [[2, 2], [2, 2]]


def scalars(devs):
    """item() no longer reads by aten::_local_scalar_dense: the host does not wait."""
    from course_lib.accelerators.virtual import machine

    x = torch.ones(10_000_000, device=devs[0]).sum()
    assert x.item() == 1e7 and machine.clock.host >= machine.clock.free[0]


def tags(devs):
    """Operators carry other tags: what waits for the device, what changes a shape and
    what is written to is not known."""
    assert torch.Tag.dynamic_output_shape in aten.nonzero.default.tags
    assert torch.Tag.data_dependent_output in aten._local_scalar_dense.default.tags
    assert torch.Tag.inplace_view in aten.t_.default.tags
    assert torch.Tag.out in aten.add.out.tags


def flops(devs):
    """torch.utils.flop_counter.flop_registry counts in another way: the times of
    products and convolutions are wrong."""
    known = flop_counter.flop_registry
    assert aten.mm in known and aten.convolution in known
    assert known[aten.mm](torch.ones(2, 3), torch.ones(3, 4), out_val=None) == 48


def several_at_once(devs):
    """Optimizers no longer ask _foreach_supported_types: on virtual GPUs they go
    through their parameters one by one, unlike on CUDA."""
    from torch.optim import optimizer
    from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices

    assert VirtualTensor in optimizer._foreach_supported_types
    assert "vgpu" in _get_foreach_kernels_supported_devices()
    x = nn.Parameter(torch.ones(2, device=devs[0]))
    assert optimizer._default_to_fused_or_foreach([x], False)[1]


def step_hooks(devs):
    """Optimizers no longer call the hooks for all of them: a trace does not know their
    steps, and their state counts as activations."""
    from torch.optim import optimizer

    hooks = (
        optimizer._global_optimizer_pre_hooks,
        optimizer._global_optimizer_post_hooks,
    )
    homes = {hook.__module__ for own in hooks for hook in own.values()}
    assert any(home.startswith("course_lib.accelerators.vgpu") for home in homes)


def files(devs):
    """torch.serialization.register_package no longer decides where a storage goes:
    torch.load(map_location="vgpu:1") does not work."""
    file = io.BytesIO()
    torch.save({"x": torch.ones(2)}, file)
    file.seek(0)
    found = torch.load(file, map_location="vgpu:1")["x"]
    assert found.device == devs[1] and found.tolist() == [1, 1]


def pickles(devs):
    """torch._utils._rebuild_device_tensor_from_cpu_tensor or _rebuild_parameter has
    changed: virtual tensors cannot be pickled."""
    model = nn.Linear(2, 1).to(devs[2])
    back = pickle.loads(pickle.dumps(model))
    assert back.weight.device == devs[2] and isinstance(back.weight, nn.Parameter)


def copies(devs):
    """copy.deepcopy takes another way through a tensor: the copy of a virtual one is
    not on its device."""
    assert copy.deepcopy(torch.ones(2, device=devs[1])).device == devs[1]


def comm(devs):
    """nn.DataParallel no longer calls the functions of torch.nn.parallel.comm by their
    names: its copies fail on virtual GPUs."""
    from torch.nn.parallel import _functions

    calls = ("broadcast_coalesced", "reduce_add_coalesced", "scatter", "gather")
    source = inspect.getsource(_functions)
    assert all(f"comm.{name}(" in source for name in calls)
    model = nn.DataParallel(nn.Linear(2, 1).to(devs[0]), device_ids=devs)
    assert model(torch.ones(3, 2)).device == devs[0]


def accelerator(devs):
    """torch.accelerator no longer answers for nn.DataParallel: it does not find the
    virtual GPUs, their current device or their stream."""
    assert torch._utils._get_available_device_type() == "vgpu"
    assert torch.accelerator.device_count() == 3
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1


def bundles(devs):
    """The helpers of torch._utils that pack tensors into one have changed: broadcasts
    of nn.DataParallel fail."""
    from torch import _utils

    tensors = [torch.ones(2), torch.zeros(3)]
    flat = _utils._flatten_dense_tensors(tensors)
    assert [t.shape for t in _utils._unflatten_dense_tensors(flat, tensors)] == [
        (2,),
        (3,),
    ]
    assert [len(own) for own in _utils._take_tensors(tensors, 8)] == [1, 1]


LEANS = (
    [backend, boxed_factories, empty_kernels, copy_from, wrapper_subclass]
    + [torch_dispatch, one_thread, entry_of_backward, guard, printing, parameters]
    + [shallow_copies, swapped, data, relabelled, lazy_bits, composites, scalars]
    + [tags, flops, several_at_once, step_hooks, files, pickles, copies, comm]
    + [accelerator, bundles]
)


@pytest.mark.parametrize("thing", LEANS, ids=lambda thing: thing.__name__)
def test_pytorch_still_keeps_what_virtual_gpus_lean_on(virtual, thing):
    try:
        thing(virtual(3))
    except BaseException as error:
        sentence = " ".join(thing.__doc__.split())
        pytest.fail(f"{sentence} ({type(error).__name__}: {error})", pytrace=False)


def test_every_function_above_is_among_them_and_says_what_broke():
    here = {
        function
        for name, function in globals().items()
        if inspect.isfunction(function)
        and function.__module__ == __name__
        and not name.startswith("test_")
    }
    assert here == set(LEANS)
    assert all(len(thing.__doc__) > 40 for thing in LEANS)
