"""Code of lesson 04 and of its scripts that people copy, on one to four ranks.

It is taken from the cells by their ids. What must equal one process does, also where
samples cannot be shared out equally.
"""

from functools import cache, partial
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.data import digits
from course_lib.launching import launcher
from tests import lesson_code

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "notebooks/scripts"
DEFINED = ("setup", "shard", "join", "models", "alone", "hand", "train", "sync")
RANKS = (1, 2, 3, 4)
DIVIDING = (1, 2, 4)  # those that share 64 samples equally


definitions = partial(lesson_code.definitions, "04", DEFINED)
block = partial(lesson_code.block, "04")


def with_norm():
    torch.manual_seed(1)
    layers = nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(16, 10))


def whole(model, images, labels):
    """Mean loss and accuracy of a plain model, by one process."""
    with torch.no_grad():
        outputs = model.eval()(images)
    loss = nn.functional.cross_entropy(outputs, labels).item()
    return loss, (outputs.argmax(1) == labels).float().mean().item()


def names_of(source):
    """What a source defines."""
    names = {"__name__": "lesson"}
    exec(source, names)
    return names


def train_both(rank, world_size, source, way):
    names = names_of(source)
    return names[way](rank, world_size, names["small"])


def use(rank, world_size, source, blocks, path):
    """Evaluate, save and read data in a rank, by the code of text cells."""
    names = names_of(source + "\nfrom torch.utils.data import DataLoader, Subset")
    device = names["join"]()
    model = with_norm().to(device)
    ddp = names["DDP"](model)
    own = torch.full((8, 64), float(rank), device=device)
    ddp(own).sum().backward()  # now each rank has running statistics of its own
    names |= {"model": ddp, "device": device, "rank": rank, "path": path}
    exec(blocks["save-text"], names)
    found = {}
    for count in (261, 10):
        images, labels = (part[:count] for part in names["test_set"].tensors)
        data = torch.utils.data.TensorDataset(images, labels)
        found[count] = names["evaluate"](ddp, data, device)
    found["training"] = all(module.training for module in model.modules())
    exec(blocks["file-text"], names)
    found["state"] = {k: v.cpu() for k, v in model.state_dict().items()}
    names |= {"data": torch.arange(30).repeat(2, 1).T.split(1), "epochs": 2}
    names |= {"world_size": world_size, "read": []}
    names["data"] = [tuple(pair[0]) for pair in names["data"]]
    exec(blocks["epoch-read"].replace("...", "read.append(images.tolist())"), names)
    found["read"] = names["read"]
    names["dist"].destroy_process_group()
    return found


def evaluate(rank, world_size, folder, script):
    """What a script's `evaluate` finds; its model has statistics of this rank."""
    import importlib
    import sys

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    sys.path.insert(0, folder)
    module = importlib.import_module(script)
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(with_norm())
    ddp(torch.full((8, 64), float(rank))).sum().backward()
    device = torch.device("cpu")
    if script == "ddp":  # of all digits
        data, found = module.load_data(None, device), module.evaluate(ddp, device)
    else:
        test_set = module.load_data()[1]
        data, found = test_set.tensors, module.evaluate(ddp, test_set, device)
    training = all(part.training for part in ddp.modules())
    state = ddp.module.state_dict()
    dist.destroy_process_group()
    return found, training, state, data


@cache
def trained(way, ranks):
    return launcher.launch(train_both, definitions(), way, world_size=ranks)


@cache
def alone():
    return names_of(definitions())["alone"]()


def assert_close(one, other, **how):
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, **how)


@pytest.mark.parametrize("way", ["by_hand", "train"])
@pytest.mark.parametrize("ranks", RANKS)
def test_all_ranks_end_with_the_same_weights(way, ranks):
    first, *others = trained(way, ranks)
    for other in others:
        assert_close(other, first, atol=0)


@pytest.mark.parametrize("way", ["by_hand", "train"])
@pytest.mark.parametrize("ranks", DIVIDING)
def test_ranks_that_share_equally_end_with_the_weights_of_one_process(way, ranks):
    assert_close(trained(way, ranks)[0], alone(), atol=1e-6)


def test_three_ranks_by_hand_end_as_ddp_does_and_not_as_one_process():
    # 22, 21 and 21 samples of 64: a mean of means
    assert_close(trained("by_hand", 3)[0], trained("train", 3)[0], atol=1e-6)
    apart = [(trained("train", 3)[0][n] - alone()[n]).abs().max() for n in alone()]
    assert max(apart) > 1e-5


@pytest.mark.parametrize("ranks", RANKS)
def test_evaluating_saving_and_reading_do_on_ranks_what_one_process_does(
    ranks, tmp_path
):
    blocks = {name: block(name) for name in ("save-text", "file-text", "epoch-read")}
    path = str(tmp_path / "weights.pt")
    every = launcher.launch(use, definitions(), blocks, path, world_size=ranks)
    model = with_norm()
    model.load_state_dict(torch.load(path))
    _, test_set = digits(validation=261)
    for found in every:
        assert found["training"]
        assert_close(found["state"], model.state_dict(), atol=0)
        for count in (261, 10):
            images, labels = (part[:count] for part in test_set.tensors)
            _, accuracy = whole(model, images, labels)
            assert found[count] == pytest.approx(accuracy, abs=1e-6)
    # each epoch of each rank has equally many batches, and all together all samples
    assert len({len(found["read"]) for found in every}) == 1
    read = [found["read"][: len(found["read"]) // 2] for found in every]
    assert {n for batches in read for batch in batches for n in batch} == {*range(30)}


@pytest.mark.parametrize(("forward", "calls"), [("inside", 1), ("outside", 4)])
@pytest.mark.parametrize("ranks", RANKS[1:])
def test_accumulation_sends_once_if_forwards_are_inside(ranks, forward, calls):
    def accumulate(rank, world_size, source, forward):
        names_of(source)["accumulate"](rank, world_size, forward)

    how = {"world_size": ranks, "trace": True}
    run = launcher.launch(accumulate, definitions(), forward, **how)
    assert run.trace.calls()["all_reduce"] == calls


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("script", ["train", "ddp"])
def test_scripts_evaluate_each_sample_once_by_the_statistics_of_rank_0(script, ranks):
    every = launcher.launch(evaluate, str(SCRIPTS), script, world_size=ranks)
    model = with_norm()
    _, _, state, data = every[0]
    model.load_state_dict(state)
    loss, accuracy = whole(model, *data)
    right = accuracy if script == "ddp" else (loss, accuracy)
    for found, training, *_ in every:
        assert found == pytest.approx(right, abs=1e-5)
        assert training
