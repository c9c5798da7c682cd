"""Derivatives of every kind on virtual GPUs: the CPU's numbers, or one sentence."""

import multiprocessing
import re

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.testing import assert_close
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from tests.backward_errors import left_elsewhere
from tests.capabilities.devices import OnDevice

X = torch.linspace(0.5, 2.0, 4)


def curve(x):
    return (x.sin() * x.exp() * x.sum()).sum()


def on_cpu(tree):
    return tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), tree)


def agree(devs, make):
    """`make(device)` gives on a virtual GPU what it gives on the CPU."""
    got = make(devs[1])
    assert_close(on_cpu(got), on_cpu(make(torch.device("cpu"))))
    return got


TRANSFORMS = {
    "gradient": grad(curve),
    "gradient of a gradient": grad(lambda x: grad(curve)(x).square().sum()),
    "hessian": hessian(curve),
    "jacfwd": jacfwd(torch.sin),
    "jacrev": jacrev(torch.sin),
    "forward over forward": jacfwd(jacfwd(curve)),
    "forward over reverse": jacfwd(jacrev(curve)),
    "reverse over forward": jacrev(jacfwd(curve)),
    "reverse over reverse": jacrev(jacrev(curve)),
    "jvp": lambda x: jvp(curve, (x,), (x,)),
    "jvp of a gradient": lambda x: jvp(grad(curve), (x,), (x,)),
    "vjp": lambda x: vjp(torch.sin, x)[1](x),
    "a gradient for each sample": lambda x: vmap(grad(curve))(torch.outer(x, x)),
    "a hessian for each sample": lambda x: vmap(hessian(curve))(torch.outer(x, x)),
    "a third derivative": jacfwd(hessian(curve)),
    "in chunks": lambda x: vmap(torch.sin, chunk_size=3)(x),
    "linearized": lambda x: linearize(torch.sin, x)[1](x),
    "autograd's jacobian": lambda x: torch.autograd.functional.jacobian(
        torch.sin, x, vectorize=True, strategy="forward-mode"
    ),
    "autograd's hessian": lambda x: torch.autograd.functional.hessian(
        curve, x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_transform_gives_the_numbers_of_the_cpu(devs, transform):
    got = agree(devs, lambda device: transform(X.to(device)))
    leaves = got if isinstance(got, tuple) else (got,)
    assert {leaf.device for leaf in leaves} == {devs[1]}


def test_what_does_not_change_has_no_tangent_even_at_infinity(devs):
    def product(device):
        one = torch.ones(2, device=device)
        infinite = torch.tensor([float("inf"), 1.0], device=device)
        return torch._efficientzerotensor((2,), device=device) * infinite + one

    assert agree(devs, product).tolist() == [1, 1]


def test_a_zero_tangent_and_its_views_hold_zeros(devs):
    zero = torch._efficientzerotensor((2, 3), device=devs[1])
    assert zero[0].view(3)._is_zerotensor() and zero.sum().item() == 0
    assert (zero.exp() + zero.t().reshape(2, 3)).tolist() == [[1] * 3] * 2
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zero.add_(1)


# --- across devices


def across(device):
    """A function of tensors on the CPU that works on the device."""
    return lambda x: (x.to(device).sin() * 2).to("cpu").exp()


CROSSING = {
    "vmap": lambda f: vmap(f)(torch.outer(X, X)),
    "jacrev": lambda f: jacrev(f)(X),
    "jacfwd": lambda f: jacfwd(f)(X),
    "hessian": lambda f: hessian(lambda x: f(x).sum())(X),
    "each sample": lambda f: vmap(grad(lambda x: f(x).sum()))(torch.outer(X, X)),
    "vmap of vjp": lambda f: vmap(vjp(f, X)[1])(torch.eye(4)),
}


@pytest.mark.parametrize("transform", CROSSING.values(), ids=CROSSING)
def test_a_function_may_move_to_a_device_inside_of_a_transform(devs, transform):
    agree(devs, lambda device: transform(across(device)))


@pytest.mark.parametrize("again", [False, True])
def test_gradients_are_batched_across_cpu_and_devices(devs, again):
    def slopes(device):
        model = nn.Linear(4, 3)
        nn.init.constant_(model.weight, 0.5)
        model.to(device)
        x = X.repeat(2, 1).requires_grad_()
        out = model(x.to(device).sin()).to(devs[0] if device == devs[1] else "cpu")
        seeds = torch.arange(30.0, device=out.device).view(5, 2, 3)
        options = {"is_grads_batched": True, "create_graph": again}
        return torch.autograd.grad(out, [x, model.weight], seeds, **options)

    of_x, of_weight = agree(devs, slopes)
    assert (of_x.device.type, of_weight.device) == ("cpu", devs[1])


@pytest.mark.parametrize("output", [-1, 0])
def test_gradients_are_batched_through_data_parallel(devs, output):
    torch.manual_seed(0)
    model = nn.Linear(4, 3).requires_grad_(False)
    x = torch.rand(6, 4, requires_grad=True)
    seeds = torch.rand(5, 6, 3)
    (want,) = torch.autograd.grad(model(x), x, seeds, is_grads_batched=True)
    spread = nn.DataParallel(model.to(devs[0]), devs[:2], output_device=output)
    out = spread(x)
    seeds = seeds.to(out.device)
    (got,) = torch.autograd.grad(out, x, seeds, is_grads_batched=True)
    assert_close(got, want)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("move", ["to the CPU", "to the device"])
def test_a_gradient_on_another_device_than_its_output_is_refused(devs, batched, move):
    x = torch.ones(3, requires_grad=True)
    out = x.to(devs[1]) if move == "to the device" else x.to(devs[1]).cpu()
    there = "cpu" if move == "to the device" else devs[1]
    seeds = torch.eye(3, device=there) if batched else torch.ones(3, device=there)
    want = f"invalid gradient at index 0 - expected device {out.device} but got {there}"
    with pytest.raises(RuntimeError, match=want):
        torch.autograd.grad(out, x, seeds, is_grads_batched=batched)


def test_a_gradient_that_a_function_leaves_on_another_device_is_refused(devs):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid gradient: it is on another device"):
        left_elsewhere(x, devs[1]).sum().backward()
    (x.to(devs[1]) * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("ends", [(0, 1), (None, 1)])
def test_gradcheck_takes_a_function_across_devices(devs, ends):
    start = "cpu" if ends[0] is None else devs[ends[0]]
    x = torch.ones(2, dtype=float, device=start, requires_grad=True)
    function = lambda x: x.to(devs[ends[1]]).sin().to(start)  # noqa: E731
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(function, x, check_batched_grad=True, **forward)
    assert torch.autograd.gradgradcheck(function, x, check_fwd_over_rev=True)


# --- errors inside of a transform


def test_a_transform_that_does_not_fit_says_so_and_the_next_one_works(virtual):
    (device,) = virtual(1, "1 MB")
    with pytest.raises(torch.OutOfMemoryError, match="vgpu out of memory"):
        hessian(curve)(torch.ones(400, device=device))
    assert hessian(curve)(X.to(device)).shape == (4, 4)


@pytest.mark.parametrize("transform", [grad, hessian, jacrev, jacfwd])
def test_an_error_in_a_derivative_of_ones_own_is_raised_as_it_is(devs, transform):
    class Fails(Cube):
        @staticmethod
        def backward(context, slope):
            raise KeyError("mine")

        jvp = backward

    with pytest.raises(KeyError, match="mine"):
        transform(lambda x: Fails.apply(x).sum())(X.to(devs[1]))
    agree(devs, lambda device: hessian(curve)(X.to(device)))


# --- models


def test_each_sample_has_its_gradient(devs):
    def slopes(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
        weights = {name: p.detach() for name, p in model.named_parameters()}

        def loss(weights, x):
            return functional_call(model, weights, x).square().sum()

        batch = torch.outer(X, X).to(device)
        return vmap(grad(loss), in_dims=(None, 0))(weights, batch)

    assert agree(devs, slopes)["0.weight"].shape == (4, 5, 4)


def test_models_are_stacked(devs):
    def outputs(device):
        torch.manual_seed(0)
        models = [nn.Linear(4, 2).to(device) for _ in range(3)]
        weights, buffers = stack_module_state(models)

        def run(weights, buffers, x):
            return functional_call(models[0], (weights, buffers), x)

        return vmap(run, in_dims=(0, 0, None))(weights, buffers, X.to(device))

    assert agree(devs, outputs).shape == (3, 2)


class Cube(torch.autograd.Function):
    """A function of one's own with both derivatives, for all transforms."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(inputs[0])
        context.save_for_forward(inputs[0])

    @staticmethod
    def backward(context, slope):
        return slope * 3 * context.saved_tensors[0] ** 2

    @staticmethod
    def jvp(context, tangent):
        return tangent * 3 * context.saved_tensors[0] ** 2


OWN = {
    "grad": grad(lambda x: Cube.apply(x).sum()),
    "vmap": vmap(Cube.apply),
    "jvp": lambda x: jvp(Cube.apply, (x,), (x,)),
    "jacrev": jacrev(Cube.apply),
    "hessian": hessian(lambda x: Cube.apply(x).sum()),
}


@pytest.mark.parametrize("transform", OWN.values(), ids=OWN)
def test_a_function_of_ones_own_can_be_transformed(devs, transform):
    agree(devs, lambda device: transform(X.to(device)))


# --- autograd without torch.func


def test_tangents_go_forward_through_devices_views_and_writes(devs):
    def tangents(device):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(X.to(device), torch.ones(4, device=device))
            y = torch.zeros(4, device=device)
            y.copy_(x)
            y[0] = x[1]
            y.view(2, 2).mul_(x.view(2, 2))
            both = y, y.sin().to("cpu")
            return [tuple(forward_ad.unpack_dual(value)) for value in both]

    agree(devs, tangents)


def test_a_tangent_on_another_device_is_refused(devs):
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="same device"):
        forward_ad.make_dual(X.to(devs[1]), X)


def steps(device, function):
    x = X.clone().to(device).requires_grad_()
    (slope,) = torch.autograd.grad(function(x), x, create_graph=True)
    slope.square().sum().backward()
    return slope, x.grad


def hooked(x):
    y = x**3
    y.register_hook(lambda slope: slope * 2)
    return y.sin().sum()


def offloaded(x):
    with torch.autograd.graph.save_on_cpu():
        return curve(x)


def packed(x):
    keep, back = (lambda x: x.cpu()), (lambda kept: kept.to(x.device))
    with torch.autograd.graph.saved_tensors_hooks(keep, back):
        return curve(x)


TWICE = {
    "plain": curve,
    "checkpoint": lambda x: checkpoint(curve, x, use_reentrant=False),
    "own function": lambda x: Cube.apply(x).sum(),
    "hooks": hooked,
    "saved on the CPU": offloaded,
    "hooks for what is saved": packed,
}


@pytest.mark.parametrize("function", TWICE.values(), ids=TWICE)
def test_two_backwards_give_the_numbers_of_the_cpu(devs, function):
    agree(devs, lambda device: steps(device, function))


# --- what would end the process


@pytest.mark.parametrize(
    "make",
    [
        lambda tensor: torch.UntypedStorage(8, device=tensor.device),
        lambda tensor: torch.TypedStorage(8, dtype=tensor.dtype, device=tensor.device),
        lambda tensor: torch.utils.dlpack.to_dlpack(tensor),
        lambda tensor: tensor.new(
            tensor._typed_storage()._new_shared(4, device="vgpu")
        ),
    ],
)
def test_memory_without_a_tensor_is_refused(devs, make):
    with pytest.raises(NotImplementedError, match="cannot be had without a tensor"):
        make(X.to(devs[1]))
    assert torch.UntypedStorage(8).nbytes() == 8
    assert torch.UntypedStorage([1, 2]).tolist() == [1, 2]


def test_a_forked_worker_refuses_tensors_of_a_device_as_on_cuda(devs):
    samples = OnDevice([X.to(devs[1])] * 2)
    loader = DataLoader(samples, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError) as caught:
        list(loader)
    (line,) = (line for line in str(caught.value).splitlines() if "forked" in line)
    assert re.match("RuntimeError: Cannot re-initialize vgpu in forked subproc", line)
    assert loader.dataset[0].device == devs[1]


def tried(pipe, tensor):
    """What a forked process can do: nothing with its parent's devices."""
    said = []
    for attempt in (
        lambda: tensor + 1,
        lambda: tensor.cpu(),
        lambda: torch.ones(2, device="vgpu:1"),
        lambda: torch.ones(2).to("vgpu:1"),
        lambda: torch.vgpu.memory_allocated(0),
    ):
        try:
            attempt()
        except RuntimeError as error:
            said.append(str(error).partition(":")[0])
    torch.manual_seed(0)
    with torch.profiler.profile():
        said.append(torch.ones(2).sum().item())
    from course_lib.accelerators.selection import devices

    pipe.send([said, torch.vgpu._is_in_bad_fork()])
    own = devices(2, quiet=True)[1]
    pipe.send(float(torch.ones(2, device=own).sum()))


def test_a_forked_process_may_make_devices_of_its_own(devs):
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=tried, args=(other, X.to(devs[1])))
    process.start()
    assert mine.poll(60)
    said, forked = mine.recv()
    refused = "Cannot re-initialize vgpu in forked subprocess"
    assert said == [refused] * 5 + [2] and forked
    assert mine.poll(60) and mine.recv() == 2
    process.join(60)
    assert process.exitcode == 0
    assert not torch.vgpu._is_in_bad_fork() and X.to(devs[1]).sum().item() == 5
