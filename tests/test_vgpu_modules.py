"""Modules, optimizers and their files on virtual GPUs: bit by bit the CPU's numbers."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


class Words(nn.Module):
    """Embedding, attention, layer norm and dropout; weights of both ends are tied."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        options = {"dim_feedforward": 16, "batch_first": True}
        self.layer = nn.TransformerEncoderLayer(8, 2, **options)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, words):
        return self.head(self.layer(self.table(words))).mean(1)


def cnn():
    first = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*first, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2))


MODELS = {
    "mlp": (mlp, lambda: torch.randn(6, 4)),
    "cnn": (cnn, lambda: torch.randn(3, 1, 8, 8)),
    "transformer": (Words, lambda: torch.randint(0, 11, (2, 5))),
}
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01),
    "one by one": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
}


def built(make, device="cpu"):
    torch.manual_seed(0)
    return make().to(device)


def trained(model, batch, optimizer, *, steps=3):
    """Losses of some steps; dropout draws from the same seed everywhere."""
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(batch)
        loss = F.cross_entropy(out, torch.zeros(len(out), dtype=int).to(out.device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def on_cpu(values):
    return [value.detach().cpu() for value in values]


def equal(one, other):
    """Compare what two modules hold, bit by bit."""
    one, other = on_cpu(one.state_dict().values()), on_cpu(other.state_dict().values())
    assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_to_the_numbers_of_the_cpu(devs, name):
    make, draw = MODELS[name]
    torch.manual_seed(2)
    batch = draw()
    want, got = built(make), built(make, devs[1])
    first = trained(want, batch, torch.optim.SGD(want.parameters(), 0.1))
    second = trained(got, batch.to(devs[1]), torch.optim.SGD(got.parameters(), 0.1))
    assert first == second
    equal(want, got)
    slopes = [on_cpu(p.grad for p in m.parameters()) for m in (want, got)]
    assert_close(*slopes, rtol=0, atol=0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimizer_takes_the_steps_of_the_cpu(devs, optimizer):
    batch = torch.randn(5, 4)
    want, got = built(mlp), built(mlp, devs[1])
    first = trained(want, batch, optimizer(want.parameters()))
    assert trained(got, batch.to(devs[1]), optimizer(got.parameters())) == first
    equal(want, got)


def test_a_model_over_two_devices_gives_the_numbers_of_one(devs):
    want, one, two = built(mlp), built(mlp)[:2].to(devs[0]), built(mlp)[2:].to(devs[1])
    batch = torch.randn(5, 4)
    for out in (want(batch), two(one(batch.to(devs[0])).to(devs[1]))):
        out.square().sum().backward()
    slopes = [p.grad for p in (*one.parameters(), *two.parameters())]
    assert_close(on_cpu(slopes), on_cpu(p.grad for p in want.parameters()))
    assert one[0].weight.grad.device == devs[0]
    assert two[1].weight.grad.device == devs[1]


# --- module.to


def test_moving_a_module_keeps_its_parameters(devs):
    model = mlp()
    before = list(model.parameters())
    for device in (devs[1], devs[2], "cpu", devs[0]):
        assert model.to(device) is model
        assert all(a is b for a, b in zip(model.parameters(), before))
        assert {str(t.device) for t in model.state_dict().values()} == {str(device)}
        assert all(type(p) is nn.Parameter or p._is_param for p in before)
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in before)


def test_an_optimizer_made_before_a_move_trains_the_moved_module(devs):
    batch, want, got = torch.randn(5, 4), built(mlp), built(mlp)
    optimizer = torch.optim.SGD(got.parameters(), 0.1, momentum=0.9)
    got.to(devs[1])
    first = trained(want, batch, torch.optim.SGD(want.parameters(), 0.1, momentum=0.9))
    assert trained(got, batch.to(devs[1]), optimizer) == first
    equal(want, got)


def test_gradients_move_with_their_module(devs):
    model = nn.Linear(2, 1).to(devs[0])
    model(torch.ones(3, 2, device=devs[0])).sum().backward()
    model.to(devs[2])
    assert model.weight.grad.device == devs[2]
    assert model.weight.grad.tolist() == [[3, 3]]
    model.to("cpu")
    assert model.weight.grad.device.type == "cpu"


def test_a_module_moves_back_in_the_middle_of_its_training(devs):
    model, batch = built(mlp, devs[1]), torch.randn(5, 4)
    trained(model, batch.to(devs[1]), torch.optim.SGD(model.parameters(), 0.1))
    model.to("cpu")
    trained(model, batch, torch.optim.SGD(model.parameters(), 0.1))
    assert type(model[0].weight) is nn.Parameter


def test_tied_weights_stay_tied_when_a_module_moves(devs):
    model = Words().to(devs[1])
    assert model.head.weight is model.table.weight
    assert len(list(model.parameters())) == len(list(Words().parameters()))


def test_a_frozen_parameter_stays_frozen_and_gets_no_gradient(devs):
    model = mlp()
    model[0].weight.requires_grad_(False)
    model.to(devs[1])
    model(torch.ones(2, 4, device=devs[1])).sum().backward()
    assert not model[0].weight.requires_grad and model[0].weight.grad is None
    assert model[0].bias.grad is not None


def test_a_module_changes_its_type_on_the_device(devs):
    model = nn.Linear(2, 2).to(devs[1]).double()
    assert model.weight.dtype is torch.float64
    assert model(torch.ones(1, 2, dtype=float, device=devs[1])).device == devs[1]
    assert model.half().weight.dtype is torch.float16
    assert model.to(devs[0], torch.float32).weight.device == devs[0]


def test_a_module_is_made_on_a_device_at_once(devs):
    with torch.device(devs[1]):
        model = mlp()
    made = nn.Linear(2, 2, device=devs[2])
    assert {p.device for p in model.parameters()} == {devs[1]}
    assert made.weight.device == devs[2]
    assert nn.Linear(2, 2, device="meta").to_empty(device=devs[1]).bias.shape == (2,)


# --- around a model


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_feeds_a_device(devs, workers):
    data = TensorDataset(torch.arange(8.0).view(8, 1), torch.arange(8))
    loader = DataLoader(data, batch_size=4, num_workers=workers)
    seen = [(x.to(devs[1]), y.to(devs[1])) for x, y in loader]
    assert [y.tolist() for _, y in seen] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all(x.device == devs[1] for x, _ in seen)


def test_a_data_set_may_live_on_a_device(devs):
    data = TensorDataset(torch.arange(4.0, device=devs[1]))
    batches = [batch for (batch,) in DataLoader(data, batch_size=2)]
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3]]
    assert {b.device for b in batches} == {devs[1]}


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_draws_the_same_dropout_twice(devs, reentrant):
    def slopes(again):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 1))
        model.to(devs[1])
        batch = torch.ones(3, 4, device=devs[1], requires_grad=True)
        torch.manual_seed(5)
        out = (
            checkpoint(model, batch, use_reentrant=reentrant) if again else model(batch)
        )
        out.sum().backward()
        return on_cpu(p.grad for p in model.parameters())

    assert_close(slopes(True), slopes(False), rtol=0, atol=0)


def test_hooks_see_tensors_of_the_device(devs):
    model, seen = nn.Linear(2, 2).to(devs[1]), []
    model.register_forward_hook(lambda m, i, out: seen.append(out.device))
    model.register_full_backward_hook(lambda m, i, out: seen.append(out[0].device))
    model.weight.register_hook(lambda slope: slope * 2)
    model.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device))
    model(torch.ones(1, 2, device=devs[1], requires_grad=True)).sum().backward()
    assert seen == [devs[1]] * 3
    assert model.weight.grad.tolist() == [[2, 2], [2, 2]]


def test_a_function_of_ones_own_runs_on_a_device(devs):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context, slope):
            return slope * 3 * context.saved_tensors[0] ** 2

    leaf = torch.tensor([1.0, 2.0], device=devs[2], requires_grad=True)
    Cube.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [3, 12] and leaf.grad.device == devs[2]


def test_gradients_of_gradients_and_inference_mode_work(devs):
    leaf = torch.tensor(2.0, device=devs[1], requires_grad=True)
    (slope,) = torch.autograd.grad(leaf**3, leaf, create_graph=True)
    slope.backward()
    assert leaf.grad.item() == 12
    with torch.inference_mode():
        assert not mlp().to(devs[1])(torch.ones(2, 4, device=devs[1])).requires_grad


RECURRENT = {
    "RNN": lambda: nn.RNN(3, 5, batch_first=True),
    "RNN of ReLU": lambda: nn.RNN(3, 5, batch_first=True, nonlinearity="relu"),
    "LSTM": lambda: nn.LSTM(3, 5, batch_first=True),
    "GRU": lambda: nn.GRU(3, 5, batch_first=True),
    "LSTM, no bias": lambda: nn.LSTM(3, 5, batch_first=True, bias=False),
    "GRU, no bias": lambda: nn.GRU(3, 5, batch_first=True, bias=False),
    "LSTM, two layers, both ways": lambda: nn.LSTM(
        *(3, 5, 2), batch_first=True, bidirectional=True, dropout=0.5
    ),
    "GRU, two layers, both ways": lambda: nn.GRU(
        *(3, 5, 2), batch_first=True, bidirectional=True
    ),
    "LSTM with a projection": lambda: nn.LSTM(3, 5, batch_first=True, proj_size=2),
}
LENGTHS = {"equal": None, "sorted": [7, 4, 2], "as they come": [2, 7, 4]}


def recurrent(make, lengths, device):
    """Outputs, last states and gradients of a model of sequences, on the CPU."""
    torch.manual_seed(0)
    model, x = make().to(device), torch.randn(3, 7, 3, device=device)
    x.requires_grad_()
    given = x
    if lengths:
        ordered = lengths == sorted(lengths, reverse=True)
        given = nn.utils.rnn.pack_padded_sequence(
            x, torch.tensor(lengths), batch_first=True, enforce_sorted=ordered
        )
        assert given.data.device == x.device and given.batch_sizes.is_cpu
    out, states = model(given)
    if lengths:
        out, back = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        assert back.is_cpu and back.tolist() == lengths
    states = states if isinstance(states, tuple) else (states,)
    assert {each.device for each in (out, *states)} == {x.device}
    sum(each.square().sum() for each in (out, *states)).backward()
    found = [out, *states, x.grad, *(p.grad for p in model.parameters())]
    return [each.detach().cpu() for each in found]


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("make", RECURRENT.values(), ids=RECURRENT)
def test_recurrent_layers_give_the_numbers_of_the_cpu(devs, make, lengths):
    assert_close(
        recurrent(make, lengths, devs[1]), recurrent(make, lengths, torch.device("cpu"))
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_recurrent_layers_work_without_gradients(devs, kind, mode):
    model, x = kind(3, 5), torch.randn(2, 4, 3)
    with mode():
        wanted = model(x)[0]
        assert_close(model.to(devs[1])(x.to(devs[1]))[0].cpu(), wanted)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_compute_in_the_type_of_autocast(devs, kind):
    model = kind(3, 5).to(devs[1])
    with torch.autocast("vgpu", torch.bfloat16):
        out = model(torch.randn(2, 4, 3, device=devs[1]))[0]
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert model.weight_hh_l0.grad.dtype == torch.float32


class Tagger(nn.Module):
    """A model of sequences that packs in its forward, as DataParallel's FAQ has it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 5, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, _ = self.layer(packed)
        return nn.utils.rnn.pad_packed_sequence(out, True, total_length=x.shape[1])[0]


def test_data_parallel_splits_a_batch_of_packed_sequences(devs):
    model, x = Tagger(), torch.randn(4, 7, 3)
    lengths = torch.tensor([3, 7, 2, 5])
    wanted = model(x, lengths)
    wanted.square().sum().backward()
    gradient = model.layer.weight_ih_l0.grad.clone()
    model.zero_grad()
    model.to(devs[0])
    both = nn.DataParallel(model, [0, 1])
    out = both(x.to(devs[0]), lengths.to(devs[0]))
    out.square().sum().backward()
    assert_close(out.cpu(), wanted)
    assert_close(model.layer.weight_ih_l0.grad.cpu(), gradient)
