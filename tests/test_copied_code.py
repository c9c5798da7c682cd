"""Code of lessons 06, 07, 07b and 07c that people copy: right on 1, 2, 3 and 4 ranks.

Taken from the cells, by their ids; each result is compared with the plain one.
"""

import pytest
import torch
import torch.distributed as dist

from course_lib.launching.launcher import launch
from tests import lesson_code

RANKS = (1, 2, 3, 4)
SUMS = {
    "by_rank_0": ["star"],
    "whole_ring": ["ring"],
    "all_reduce": ["chunk", "calls"],
    "halves": ["chunk", "calls"],
}
UPDATES, RATE = 6, 0.25


def definitions(lesson, cells):
    """What the set-up of a lesson and these cells define."""
    return lesson_code.defined(lesson, ("setup", *cells))


def all_reduced(rank, world_size, name):
    names = definitions("07", SUMS[name])
    names["MIB"] = 4 * 12  # 12 numbers, which 1, 2, 3 and 4 ranks can share
    if name in ("all_reduce", "halves"):
        call = dist.all_reduce if name == "all_reduce" else names["halves"]
        return names["once"](rank, world_size, call)
    return names[name](rank, world_size)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", SUMS)
def test_every_all_reduce_ends_with_the_sum_on_every_rank(name, ranks):
    total = float(sum(range(1, ranks + 1)))
    assert list(launch(all_reduced, name, world_size=ranks)) == [total] * ranks


def noise(rank, world_size):
    names = definitions("06", ["through", "throughput", "data", "hook"])
    names["cross_entropy"] = torch.nn.functional.cross_entropy
    return names["noisy"](rank, world_size, orders=2, steps=3)


@pytest.mark.parametrize("ranks", RANKS)
def test_the_hook_of_lesson_06_measures_own_and_averaged_gradients(ranks):
    names = definitions("06", ["data"])
    expected = torch.zeros(ranks, 2, 3, 2)
    for order in range(2):
        chances = [
            torch.Generator().manual_seed(ranks * order + rank) for rank in range(ranks)
        ]
        model = names["make"](0)
        for step in range(3):
            own = []
            for chance in chances:
                rows = torch.randint(1024, (16,), generator=chance)
                predicted = model(names["images"][rows])
                model.zero_grad()
                torch.nn.functional.cross_entropy(
                    predicted, names["labels"][rows]
                ).backward()
                own.append(flat(model))
            mean = torch.stack(own).mean(0)
            expected[:, order, step, 0] = torch.stack(own).square().sum(1)
            expected[:, order, step, 1] = mean.square().sum()
            vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
            torch.nn.utils.vector_to_parameters(vector - 0.7 * mean, model.parameters())
    for found, right in zip(launch(noise, world_size=ranks), expected):
        assert torch.allclose(found, right, rtol=1e-3)


def schemes():
    cells = ("network", "gradient", "server", "train", "reduce", "local")
    names = definitions("07b", cells)
    names["pause"] = 0
    return names


def trained(rank, world_size, scheme, knob):
    """The weights after each update, as rank 0 has them, and the last ones of each."""
    names = schemes()
    dist.init_process_group("gloo")
    vector = names["begin"].clone()
    digits = names["batches"](rank % 3, 0, (None,))
    log = names[scheme](vector, digits, RATE, UPDATES, knob)
    dist.destroy_process_group()
    return [weights for *_, weights in log or ()], vector


def drawn(names, readers):
    """The digits of each update, one row for each reader."""
    streams = [names["batches"](reader, 0, (None,)) for reader in readers]
    return [[next(stream) for stream in streams] for _ in range(UPDATES)]


def delayed(names, draws, delay):
    path = [names["begin"].clone()]
    for turn, rows in enumerate(draws):
        # at the end none is under way, so the last ones are less late
        read = path[max(0, turn - min(delay, UPDATES - turn))]
        gradients = torch.stack([names["gradient"](read, row) for row in rows])
        path.append(path[-1] - RATE * gradients.mean(0))
    return path[1:]


def averaged(names, draws, every):
    ranks, path = [names["begin"].clone() for _ in draws[0]], []
    for turn, rows in enumerate(draws, 1):
        for vector, row in zip(ranks, rows):
            vector -= RATE * names["gradient"](vector, row)
        if turn % every == 0:
            path.append(torch.stack(ranks).mean(0))
            ranks = [path[-1].clone() for _ in ranks]
    return path


def near(found, expected):
    assert len(found) == len(expected)
    return all(torch.allclose(*pair, atol=1e-5) for pair in zip(found, expected))


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_delayed_all_reduce_makes_the_updates_of_one_process(delay, ranks):
    results = launch(trained, "decentral", delay, world_size=ranks)
    names = schemes()
    draws = drawn(names, [rank % 3 for rank in range(ranks)])
    assert near(results[0][0], delayed(names, draws, delay))
    assert all(vector.equal(results[0][1]) for _, vector in results)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("every", [1, 3])
def test_local_steps_average_the_weights_of_one_process(every, ranks):
    results = launch(trained, "local", every, world_size=ranks)
    names = schemes()
    draws = drawn(names, [rank % 3 for rank in range(ranks)])
    assert near(results[0][0], averaged(names, draws, every))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_server_that_waits_for_all_makes_the_updates_of_one_process(ranks):
    results = launch(trained, "central", ranks - 1, world_size=ranks)
    names = schemes()
    draws = drawn(names, [rank % 3 for rank in range(1, ranks)])
    assert near(results[0][0], delayed(names, draws, 0))


@pytest.mark.parametrize("together", [1, 2, 4])
def test_a_server_ends_whatever_number_it_waits_for(together):
    log, _ = launch(trained, "central", together, world_size=4)[0]
    assert UPDATES <= len(log) <= UPDATES + 2


def averaged_by_hook(rank, world_size, name, steps=3):
    """What a hook makes of gradients, in each step, beside each rank's own."""
    names = definitions("07c", ["data", "ddp", "our-hook", "topk"])
    hook, state = names[name], {"feedback": True} if name == "top_k" else None
    dist.init_process_group("gloo")
    model, own = names["DDP"](names["small"](0)), names["small"](0)
    found = []
    for step in range(steps + 1):
        if step == 1:  # DDP has settled the order in its bucket, as in the lesson
            model.register_comm_hook(state, hook)
        rows = slice(100 * step + 10 * rank, 100 * step + 10 * rank + 10)
        for net in (model, own):
            net.zero_grad()
            loss = names["cross_entropy"](
                net(names["images"][rows]), names["labels"][rows]
            )
            loss.backward()
        found.append([flat(net) for net in (model, own)])
    dist.destroy_process_group()
    return found[1:]


def flat(net):
    return torch.cat([weights.grad.flatten() for weights in net.parameters()])


@pytest.mark.parametrize("ranks", RANKS)
def test_the_hook_of_16_bits_gives_the_mean(ranks):
    for rows in zip(*launch(averaged_by_hook, "bf16", world_size=ranks)):
        mean = torch.stack([own for _, own in rows]).mean(0)
        for found, _ in rows:
            # each sender rounds, and each sum
            assert (found - mean).norm() < 0.01 * mean.norm()


@pytest.mark.parametrize("ranks", RANKS)
def test_the_hook_of_the_largest_numbers_gives_their_mean_and_keeps_the_rest(ranks):
    rests = [0] * ranks
    for rows in zip(*launch(averaged_by_hook, "top_k", world_size=ranks)):
        kept = []
        for rank, (_, own) in enumerate(rows):
            gradient = own + rests[rank]
            least = gradient.abs().topk(48).values[-1]
            kept.append(gradient * (gradient.abs() >= least))
            rests[rank] = gradient - kept[-1]
        mean = torch.stack(kept).mean(0)
        assert all(torch.allclose(found, mean, atol=1e-7) for found, _ in rows)


def powered(rank, world_size):
    """The gradients of a matrix that is a column times a row, by PowerSGD."""
    names = definitions("07c", ["data", "ddp", "errors"])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = names["DDP"](torch.nn.Linear(64, 64, bias=False))
    model.register_comm_hook(*names["power_sgd"]())
    given, errors = torch.randn(1, 64), torch.randn(world_size, 64)
    found = []
    for _ in range(4):  # two as they are, then by PowerSGD
        model.zero_grad()
        (model(given) * errors[rank]).sum().backward()
        found.append(model.module.weight.grad.clone())
    dist.destroy_process_group()
    return found, torch.outer(errors.mean(0), given[0])


@pytest.mark.parametrize("ranks", RANKS)
def test_power_sgd_gives_the_mean_of_a_gradient_of_rank_1(ranks):
    for found, mean in launch(powered, world_size=ranks):
        assert all(torch.allclose(gradient, mean, atol=1e-4) for gradient in found)
