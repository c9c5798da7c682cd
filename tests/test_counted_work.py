"""Work is counted in operators: no way of calling a model goes round it."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, linear

from course_lib.accelerators.selection import devices
from course_lib.exercises.counted_work import Work

IMAGES, LABELS = torch.randn(6, 1, 8, 8), torch.tensor([1, 2, 3, 4, 5, 6])


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def hidden_by_hand(model, x):
    first, last = model[1], model[3]
    hidden = x.flatten(1) @ first.weight.T + first.bias
    return linear(hidden.relu(), last.weight, last.bias)


WAYS = {
    "called": lambda model, x: model(x),
    "forward": lambda model, x: model.forward(x),
    "layer by layer": lambda model, x: nn.Sequential.forward(model, x),
    "functional": lambda model, x: functional_call(
        model, dict(model.named_parameters()), (x,)
    ),
    "a copy": lambda model, x: copy.deepcopy(model)(x),
    "by hand": hidden_by_hand,
}


def work_of(way, device="cpu"):
    model = network().to(device)
    with Work(model) as work:
        cross_entropy(way(model, IMAGES.to(device)), LABELS.to(device)).backward()
    return work


@pytest.mark.parametrize("way", WAYS)
def test_every_way_through_a_model_is_counted_alike(way):
    work = work_of(WAYS[way])
    assert work.flops == work_of(WAYS["called"]).flops == {"cpu": 60_672}
    assert work.passes == [6]


@pytest.mark.parametrize("device", ["cpu", *devices(1)])
@pytest.mark.parametrize("way", WAYS)
def test_inference_mode_hides_nothing(way, device):
    counts = []
    for mode in (torch.no_grad, torch.inference_mode):
        model, images = network().to(device), IMAGES.to(device)
        with mode(), Work(model) as work:
            WAYS[way](model, images)
        counts.append((work.passes, sorted(work.flops.values())))
    assert counts[0] == counts[1] and counts[0][0] == [6]


def test_gradients_of_single_samples_are_the_same_work():
    model = network()

    def loss(parameters, x, y):
        return cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    with Work(model) as work:
        parameters = dict(model.named_parameters())
        vmap(grad(loss), (None, 0, 0))(parameters, IMAGES, LABELS)
    assert work.flops == {"cpu": 60_672}


def test_work_is_counted_where_it_is_done():
    [device] = devices(1, quiet=True)
    model = network()
    moved = copy.deepcopy(model).to(device)
    with Work(model) as work, torch.no_grad():
        model(IMAGES)
        moved(IMAGES[:2].to(device))
    assert work.flops == {"cpu": 28_416, str(device): 9_472}
    assert work.passes == [6, 2]


def test_a_pass_that_runs_out_of_memory_has_started():
    [device] = devices(1, quiet=True, memory=55_000)
    model = network().to(device)
    with Work(model) as work, pytest.raises(torch.OutOfMemoryError):
        model(torch.zeros(150, 64, device=device))
    assert work.passes == [150]


@pytest.mark.parametrize(
    "layers, samples",
    [
        ((nn.Conv2d(1, 4, 3), nn.ReLU()), torch.zeros(5, 1, 8, 8)),
        ((nn.Embedding(20, 16), nn.Linear(16, 20)), torch.zeros(5, 7, dtype=int)),
        ((nn.Linear(8, 8), nn.Linear(8, 8)), torch.zeros(5, 8)),
    ],
)
def test_passes_are_those_through_the_first_layer(layers, samples):
    model = nn.Sequential(*layers)
    with Work(model) as work:
        model(samples).sum().backward()
    assert work.passes[0] == 5
