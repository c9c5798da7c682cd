"""Stacked trainings are the plain ones: the same losses, weights and ends."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.errors import UsageError
from course_lib.studies import stacked
from course_lib.studies.stacked import METRICS, Plan
from tests import trainings
from tests.trainings import make

DATA = tuple(part.tensors for part in trainings.digits())
COUNT = len(DATA[0][1])
RATES = (0.02, 0.1, 0.4)


@pytest.fixture(autouse=True)
def one_thread():
    """As in a sweep; and the random state of other tests stays as it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(before)


def measured(model):
    """The four metrics of one model, in the plain way."""
    with torch.no_grad():
        for images, labels in DATA:
            outputs = model(images)
            yield cross_entropy(outputs, labels).item()
            yield (outputs.argmax(1) != labels).float().mean().item()


def plain_optimizer(name, parameters):
    """PyTorch's own, with its usual numbers."""
    if name == "Adam":
        return torch.optim.Adam(parameters)
    return torch.optim.SGD(parameters, momentum=0.9 if name == "momentum" else 0)


def plain(seed, rate, plan, *, make=make):
    """One training by torch.optim: the model, and METRICS where they are due."""
    images, labels = DATA[0]
    model, rows = make(seed), []
    optimizer = plain_optimizer(plan.optimizer, model.parameters())
    for step, batch in enumerate(stacked.batches(COUNT, plan), 1):
        now = rate(step - 1) if callable(rate) else rate
        optimizer.param_groups[0]["lr"] = now
        optimizer.zero_grad()
        cross_entropy(model(images[batch[seed]]), labels[batch[seed]]).backward()
        optimizer.step()
        if stacked.is_measured(step, plan):
            rows.append(list(measured(model)))
    return model, torch.tensor(rows)


def assert_plain(plan, *, make=make):
    """Curves, ends and weights of a plan are those of plain trainings."""
    runs = stacked.train(make, DATA, plan)
    for i, rate in enumerate(plan.rates):
        for seed in range(plan.seeds):
            model, rows = plain(seed, rate, plan, make=make)
            found = [runs.curves[name][:, i, seed] for name in METRICS]
            torch.testing.assert_close(torch.stack(found, 1), rows, rtol=0, atol=1e-4)
            last = torch.stack([runs.final[name][i, seed] for name in METRICS])
            torch.testing.assert_close(last, rows[-1], rtol=0, atol=1e-4)
            for name, p in model.named_parameters():
                torch.testing.assert_close(
                    runs.weights[name][i, seed], p.detach(), rtol=0, atol=1e-4
                )


# --- equal to the plain loop


@pytest.mark.parametrize("batch_size", [1, 8, 50, COUNT])
def test_a_hundred_steps_have_the_losses_and_weights_of_a_plain_loop(batch_size):
    assert_plain(Plan(batch_size, RATES, seeds=2, steps=100))


@pytest.mark.parametrize(
    ("optimizer", "rates"),
    [("momentum", (0.003, 0.01, 0.05)), ("Adam", (0.001, 0.005, 0.02))],
)
@pytest.mark.parametrize("batch_size", [8, COUNT])
def test_each_optimizer_steps_as_that_of_pytorch(optimizer, rates, batch_size):
    assert_plain(Plan(batch_size, rates, 2, 60, optimizer=optimizer))


@pytest.mark.parametrize("optimizer", ["momentum", "Adam"])
def test_who_ends_takes_nobody_elses_momentum_along(optimizer):
    # its rates are far apart, so that some models end long before others
    plan = Plan(16, (0.001, 0.02), 3, 200, ("val_error", 0.4), optimizer)
    runs = stacked.train(make, DATA, plan)
    assert len(runs.ended.unique()) > 2
    for i, rate in enumerate(plan.rates):
        for seed, end in enumerate(runs.ended[i].tolist()):
            model, _ = plain(seed, rate, Plan(16, (rate,), 3, end, None, optimizer))
            for name, p in model.named_parameters():
                found = runs.weights[name][i, seed]
                torch.testing.assert_close(found, p.detach(), rtol=0, atol=1e-4)


def test_a_rate_may_be_a_function_of_the_step_that_begins_at_0():
    def warm(step):
        return 0.3 * min(1, step / 10)

    plan = Plan(16, (warm, 0.3), seeds=2, steps=30)
    assert_plain(plan)
    assert stacked.train(make, DATA, plan).plan.rates == ("warm", 0.3)


def convolutional(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(36, 10),
    )  # fmt: skip


def frozen(seed):
    model = make(seed)
    model[1].weight.requires_grad_(False)
    return model


def unused(seed):
    model = make(seed)
    model.spare = nn.Parameter(torch.ones(3))
    model.forward = lambda images: nn.Sequential.forward(model[:4], images)
    return model


class Tied(nn.Module):
    """One matrix, used there and back."""

    def __init__(self):
        super().__init__()
        self.there, self.back = nn.Linear(64, 64), nn.Linear(64, 64, bias=False)
        self.back.weight = self.there.weight

    def forward(self, images):
        return self.back(self.there(images.flatten(1)).relu())[:, :10]


def tied(seed):
    torch.manual_seed(seed)
    return Tied()


@pytest.mark.parametrize("make", [convolutional, frozen, unused, tied])
def test_other_models_train_as_in_a_plain_loop(make):
    assert_plain(Plan(16, (0.05, 0.2), seeds=2, steps=30), make=make)


@pytest.mark.parametrize("rows", [1, 35, 100])
def test_groups_of_models_that_take_turns_train_as_all_at_once(monkeypatch, rows):
    plan = Plan(16, RATES, 3, 150, ("val_error", 0.4))
    whole = stacked.train(make, DATA, plan)
    monkeypatch.setattr(stacked, "_ROWS", rows)
    parts = stacked.train(make, DATA, plan)
    assert parts.ended.equal(whole.ended) and parts.reached.equal(whole.reached)
    for name, weights in parts.weights.items():
        torch.testing.assert_close(weights, whole.weights[name], rtol=0, atol=1e-4)


def test_models_of_one_seed_start_alike_and_those_of_another_differ():
    weights = stacked.train(make, DATA, Plan(8, (0.0, 0.0), 2, 1)).weights["1.weight"]
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)
    torch.testing.assert_close(weights[0, 0], make(0)[1].weight.detach())
    assert not torch.equal(weights[0, 0], weights[0, 1])


def test_two_runs_are_equal_to_the_last_bit():
    plan = Plan(8, RATES, 2, 60, ("val_error", 0.3))
    one, two = (stacked.train(make, DATA, plan) for _ in range(2))
    assert torch.equal(one.ended, two.ended)
    for name in one.weights:
        assert torch.equal(one.weights[name], two.weights[name])
    curve = "val_error"
    assert torch.equal(one.curves[curve].nan_to_num(), two.curves[curve].nan_to_num())


def test_the_trained_models_of_the_caller_stay_as_they_were():
    model = make(0)
    before = [p.detach().clone() for p in model.parameters()]
    stacked.train(lambda seed: model, DATA, Plan(8, RATES, 2, 5))
    assert all(map(torch.equal, before, model.parameters()))


def test_double_precision_trains():
    data = tuple((images.double(), labels) for images, labels in DATA)
    runs = stacked.train(lambda seed: make(seed).double(), data, Plan(8, RATES, 1, 5))
    assert runs.final["val_loss"].isfinite().all()


# --- the end of a training


@pytest.mark.parametrize("metric, level", [("val_error", 0.4), ("train_loss", 1.5)])
def test_who_reaches_the_target_ends_there_with_the_weights_of_that_step(metric, level):
    plan = Plan(16, (0.3,), 3, 200, (metric, level))
    runs = stacked.train(make, DATA, plan)
    assert runs.reached.all()
    for seed, end in enumerate(runs.ended[0].tolist()):
        model, rows = plain(seed, 0.3, Plan(16, (0.3,), 3, end))
        for name, p in model.named_parameters():
            torch.testing.assert_close(
                runs.weights[name][0, seed], p.detach(), rtol=0, atol=1e-4
            )
        values = rows[:, METRICS.index(metric)]
        assert values[-1] <= level < values[:-1].min()
    assert set(runs.curves) == {metric}


def test_after_its_end_a_training_has_no_values():
    runs = stacked.train(make, DATA, Plan(16, (0.3,), 3, 200, ("val_error", 0.4)))
    curve = runs.curves["val_error"][:, 0]
    for seed, end in enumerate(runs.ended[0].tolist()):
        assert curve[:, seed].isnan().tolist() == (runs.steps > end).tolist()
    assert runs.steps[-1] == runs.ended.max()


def test_a_rate_that_diverges_ends_and_disturbs_nobody():
    calm = Plan(16, (0.05, 0.2), 2, 60)
    wild = Plan(16, (0.05, 1e20, 0.2), 2, 60)
    one, both = (stacked.train(make, DATA, plan) for plan in (calm, wild))
    assert (both.ended[1] < 10).all() and not both.reached.any()
    assert not both.final["train_loss"][1].isfinite().any()
    assert both.curves["val_loss"][-1, 1].isnan().all()
    kept = both.curves["val_loss"][:, [0, 2]]
    torch.testing.assert_close(kept, one.curves["val_loss"], rtol=0, atol=1e-4)


def test_when_all_diverge_the_training_is_over():
    runs = stacked.train(make, DATA, Plan(16, (1e20, 1e30), 2, 10_000))
    assert runs.steps[-1] < 20


def test_slow_rates_are_given_up_soon_after_the_best_one_is_there():
    plan = Plan(16, (0.3, 1e-6), 2, 10_000, ("val_error", 0.4))
    runs = stacked.train(make, DATA, plan)
    best = runs.ended[0].float().mean().item()
    assert runs.reached.tolist() == [[True, True], [False, False]]
    late = stacked._PATIENCE * best
    assert late < runs.ended[1, 0] <= stacked._GROWTH["error"] * late + 1


def slower_seeds(seed):
    """Models that start the flatter the larger their seed is."""
    model = make(seed)
    for p in model.parameters():
        p.data /= 10**seed
    return model


def test_a_rate_that_one_seed_alone_has_brought_there_ends_nobody():
    plan = Plan(16, (0.3,), 2, 10_000, ("val_error", 0.4))
    runs = stacked.train(slower_seeds, DATA, plan)
    assert runs.reached.all()
    first, second = runs.ended[0].tolist()
    assert second > stacked._PATIENCE * first


def test_a_run_tells_how_far_it_is():
    told = []
    runs = stacked.train(
        make,
        DATA,
        Plan(16, (0.3,), 2, 400, ("val_error", 0.4)),
        show=lambda *line: told.append(line),
    )
    assert told[0] == ("batch size 16: step 1", 1 / 400)
    assert told[-1][0].endswith(f"step {runs.ended.max():,}, 2 of 2 at the target")
    assert repr(runs) == (
        f"1 rates × 2 seeds, batch size 16: up to {runs.ended.max()} steps,"
        " 2 at the target"
    )


# --- batches, measurements


@pytest.mark.parametrize("batch_size, whole", [(4, 20), (7, 14), (20, 20), (11, 11)])
def test_an_epoch_deals_each_sample_at_most_once(batch_size, whole):
    plan = Plan(batch_size, (0.1,), 3, 2 * (whole // batch_size))
    dealt = torch.cat(list(stacked.batches(20, plan)), dim=1)
    assert dealt.shape == (3, 2 * whole)
    for row in dealt:
        first, second = row[:whole].tolist(), row[whole:].tolist()
        assert len({*first}) == len({*second}) == whole
        assert first != second
    assert not torch.equal(dealt[0], dealt[1])


def test_batches_are_as_many_as_steps_also_within_an_epoch():
    for steps in (1, 4, 5, 6, 13):
        assert len(list(stacked.batches(20, Plan(4, (0.1,), 1, steps)))) == steps


def test_a_seed_has_the_same_order_however_many_others_there_are():
    one, three = (
        torch.cat(list(stacked.batches(20, Plan(5, (0.1,), seeds, 9))), dim=1)
        for seeds in (1, 3)
    )
    assert torch.equal(one[0], three[0])


def test_measurements_come_a_few_percent_apart_and_at_the_end():
    plan = Plan(8, (0.1,), 1, 5000)
    steps = [step for step in range(1, 5001) if stacked.is_measured(step, plan)]
    assert steps[0] == 1 and steps[-1] == 5000
    gaps = [(b - a, a) for a, b in zip(steps, steps[1:], strict=False)]
    assert all(gap <= 0.1 * a + 1 for gap, a in gaps)
    assert len(steps) < 200


def test_a_loss_is_looked_at_more_often_than_an_error():
    plans = (Plan(1, (), 1, 1000, (name, 0.1)) for name in ("val_error", "val_loss"))
    looks = [
        sum(stacked.is_measured(step, plan) for step in range(1, 1001))
        for plan in plans
    ]
    assert 2 * looks[0] < looks[1] < 300


# --- what cannot be stacked


@pytest.mark.parametrize(
    "layer, why",
    [
        (nn.BatchNorm2d(1), "it has buffers or BatchNorm.*GroupNorm"),
        (nn.BatchNorm2d(1, track_running_stats=False), "BatchNorm.*GroupNorm"),
        (nn.Dropout(0.5), "Dropout draws random numbers.*Leave it out"),
        (nn.Sequential(nn.Dropout2d()), "Dropout draws random numbers"),
    ],
)
def test_a_model_that_cannot_be_stacked_is_refused_with_the_way_out(layer, why):
    def mixed(seed):
        return nn.Sequential(layer, make(seed))

    with pytest.raises(UsageError, match=f"cannot train many Sequential .*{why}"):
        stacked.train(mixed, DATA, Plan(8, (0.1,), 1, 5))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_data_on_a_gpu_is_trained_there_and_the_losses_are_those_of_the_cpu():
    plan = Plan(16, (0.1, 0.3), 2, 50)
    there = [tuple(tensor.cuda() for tensor in part) for part in DATA]
    ours, theirs = stacked.train(make, DATA, plan), stacked.train(make, there, plan)
    for metric in stacked.METRICS:
        assert torch.allclose(ours.curves[metric], theirs.curves[metric], atol=1e-2)
    torch.testing.assert_close(
        ours.curves["train_loss"], theirs.curves["train_loss"], atol=1e-3, rtol=0
    )
