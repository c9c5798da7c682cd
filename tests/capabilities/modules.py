"""Modules, autograd, and what compiles them."""

import functools
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import course_lib as cl
from tests.capabilities.rows import absent, alike, works


def trained(module, x):
    """What a module gives, and its gradients, in one tensor."""
    module(x).float().pow(2).sum().backward()
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])


@works(
    "layers, losses, autograd, hooks, `torch.func`",
    "PyTorch's own operators run on the CPU's numbers: `make operators` compares all of"
    " its database.",
)
def layers(devs):
    def step(device):
        model = nn.Sequential(
            *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
            *(nn.LayerNorm(36), nn.Linear(36, 2)),
        ).to(device)
        return trained(model, torch.randn(5, 3, 5, 5, device=device))

    alike(step, devs)
    model = nn.Linear(3, 2).to(devs[1])
    x = torch.ones(1, 3, device=devs[1])
    found = torch.func.functional_call(model, dict(model.named_parameters()), (x,))
    assert_close(found, model(x))


@works(
    "`torch.func.grad`, `jvp`, `vjp`, `vmap`, `hessian`, `jacfwd`, nested",
    "Also forward-mode AD, batched gradients and double backward: `make nestings`"
    " compares all operators and modules.",
)
def transforms(devs):
    def curved(device):
        return torch.func.hessian(lambda x: (x.sin() * x.prod()).sum())(
            torch.linspace(0.5, 1.5, 4).to(device)
        )

    alike(curved, devs)
    model = nn.Linear(3, 2).to(devs[1])
    x = torch.randn(5, 3, device=devs[1])

    def loss(params, row):
        return torch.func.functional_call(model, params, (row,)).square().sum()

    params = {name: p.detach() for name, p in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(params, x)
    model(x).square().sum().backward()
    assert_close(each["weight"].sum(0), model.weight.grad)


@works(
    "`nn.LazyLinear`, `nn.LazyConv2d`, `nn.LazyBatchNorm2d`",
    "They get their shape in the first forward, on the device of the module.",
)
def lazy(devs):
    def step(device):
        layers = nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.Flatten()
        model = nn.Sequential(*layers, nn.LazyLinear(2, device=device)).to(device)
        x = torch.randn(4, 2, 5, 5, device=device)
        model(x)
        torch.optim.SGD(model.parameters(), 0.1).zero_grad()
        return trained(model, x)

    alike(step, devs)
    module = nn.LazyBatchNorm1d().vgpu(2)
    assert module(torch.ones(2, 3, device=devs[2])).device == devs[2]
    with torch.device("vgpu:1"):
        module = nn.LazyLinear(2)
    module(torch.ones(1, 3, device=devs[1]))
    assert isinstance(module.weight, nn.Parameter)
    assert torch.vgpu.memory_allocated(1) == 4 * (3 * 2 + 2)


def _encoder(device):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2).to(device)


@works(
    "`nn.TransformerEncoder` and `nn.MultiheadAttention`, also their fast path",
    "With `src_key_padding_mask` the padded places are computed too, and hold other"
    " numbers than the zeros of the nested tensors of PyTorch.",
)
def encoder(devs):
    def run(device):
        model = _encoder(device).eval()
        mask = torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]], device=device).bool()
        with torch.no_grad():
            out = model(torch.randn(2, 4, 8, device=device), src_key_padding_mask=mask)
        return out[~mask]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the CPU: nested tensors are a prototype
        alike(run, devs)
    alike(lambda d: trained(_encoder(d), torch.randn(2, 4, 8, device=d)), devs)


@works(
    "`nn.RNN`, `nn.LSTM`, `nn.GRU` and their cells, `pack_padded_sequence`",
    "In plain operators, where CUDA has one kernel for all steps: the numbers are"
    " right, the time is an upper limit.",
)
def lstm(devs):
    def step(kind, device):
        x = torch.randn(2, 4, 3, device=device)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]), True)
        layer = kind(3, 5, batch_first=True).to(device)
        layer(packed)[0].data.pow(2).sum().backward()
        return layer.weight_hh_l0.grad

    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        alike(functools.partial(step, kind), devs)


@works(
    "`torch.utils.checkpoint`, `torch.nn.utils.parametrizations`",
    "Both forms of checkpoints: what backward runs again is counted and takes time like"
    " the first run. Weight norm, spectral norm, orthogonal.",
)
def recomputed(devs):
    def step(device, reentrant):
        layers = nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 4)
        model = nn.Sequential(*layers).to(device)
        x = torch.ones(3, 4, device=device, requires_grad=True)
        checkpoint(model, x, use_reentrant=reentrant).pow(2).sum().backward()
        return x.grad

    for reentrant in (True, False):
        alike(lambda device, flag=reentrant: step(device, flag), devs)
    layers, counts = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(devs[1]), []
    for call in (layers, lambda x: checkpoint(layers, x, use_reentrant=False)):
        with cl.trace() as trace:
            call(torch.ones(3, 4, device=devs[1])).sum().backward()
        names = [event.name for event in trace.events]
        counts.append((names.count("forward"), names.count("backward")))
    (forward, backward), (same, more) = counts
    assert same == forward == 2 and more >= backward + forward
    kinds = nn.utils.parametrizations
    for change in (kinds.weight_norm, kinds.spectral_norm, kinds.orthogonal):
        module = change(nn.Linear(4, 4)).to(devs[1])
        assert trained(module, torch.ones(2, 4, device=devs[1])).device == devs[1]


@works(
    "`nn.DataParallel`",
    "Broadcast and reduce go round a ring as NCCL's do: a device hands on a tensor"
    " once. `cl.devices(4, nccl=False)` copies to one after the other. Replicas run in"
    " turn.",
)
def replicas(devs):
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(devs[0])
    x = torch.randn(6, 3)
    assert_close(nn.DataParallel(model, devs)(x), model(x.to(devs[0])))


@absent(
    "`torch.compile`",
    "It leaves what works on virtual GPUs as it is and warns: they run it operator"
    " by operator. Models on the CPU are compiled.",
)
def compiled(devs):
    model = nn.Linear(3, 2).to(devs[1])
    with pytest.warns(UserWarning, match="leaves the model as it is"):
        assert torch.compile(model) is model
    double = torch.compile(backend="eager", fullgraph=True)(lambda x: 2 * x)
    with pytest.warns(UserWarning, match="operator by operator"):
        assert double(torch.ones(2, device=devs[1])).tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert double(torch.ones(2)).tolist() == [2, 2]
        module = torch.compile(nn.Linear(3, 2), backend="eager")
    assert isinstance(module, torch._dynamo.OptimizedModule)
