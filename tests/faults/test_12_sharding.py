"""Row 12: a sharded model: what takes all ranks, and what does not fit, is named."""

import pytest
import torch

from tests.fault_table import case
from tests.faults.cells import failed, opened
from tests.kernels import error, shown

SHARDED = """
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, set_model_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
FULL = StateDictOptions(full_state_dict=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

    def encode(self, x):
        return self.body(x)

    def forward(self, x, whole=True):
        return self.head(self.encode(x)) if whole else self.encode(x)

def begin(gpu):
    [device] = cl.devices(1, quiet=True) if gpu else [torch.device("cpu")]
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    return Net().to(device), torch.ones(3, 4, device=device)

def shard(net, *parts):
    for part in parts:
        fully_shard(part)
    return fully_shard(net)

def evaluate(model, x):
    with torch.no_grad():
        return model(x)
"""


@pytest.fixture(scope="module")
def kernel():
    kernel = opened()
    assert error(kernel.run(SHARDED)) is None
    yield kernel
    kernel.close()


def cell(body, *, gpu=False, world_size=2):
    """A cell whose ranks do `body`, which begins in line 5, with a sharded model."""
    lines = "".join(f"    {line}\n" for line in body)
    return f"""def train(rank, world_size):
    net, x = begin({gpu})
    now()
    model = shard(net, net.body)
{lines}
cl.launch(train, world_size={world_size})"""


OLD = torch.__version__ < (
    2,
    12,
)  # there fully_shard leaves no mark on what it replaces
ALONE = "which gathers the shards of all ranks; rank 1 is not."
FORWARD = "the forward of a sharded model"
STALLS = [
    case(
        12,
        "full_tensor() on rank 0 alone",
        ["if rank == 0:", "    net.body.weight.full_tensor()"],
        [
            "rank 0 waits in full_tensor(): cell In[",
            "line 6, in train: net.body.weight.full_tensor()",
            f"rank 0 is in full_tensor(), {ALONE}",
            "Call it on all ranks, then use the tensor on rank 0 alone.",
            "keep rank 1 from line 6?",
        ],
    ),
    case(
        12,
        "a full state dict on rank 0 alone",
        ["if rank == 0:", "    get_model_state_dict(model, options=FULL)"],
        [
            f"rank 0 is in get_model_state_dict(), {ALONE}",
            "Call it on all ranks, then save on rank 0 alone.",
        ],
    ),
    case(
        12,
        "the norm of a DTensor on rank 0 alone",
        [
            "model(x).sum().backward()",
            "if rank == 0:",
            "    nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()",
        ],
        [
            "rank 0 waits in clip_grad_norm_() of a DTensor: cell In[",
            "which takes the shards of all ranks; rank 1 is not.",
        ],
    ),
    case(
        12,
        "an evaluation on rank 0 alone",
        ["if rank == 0:", "    evaluate(model, x)"],
        [
            f"rank 0 waits in {FORWARD}: cell In[",
            f"rank 0 is in {FORWARD} (cell In[",
            "line 6, in train), which gathers weights from all ranks; rank 1 is not.",
            "All ranks must call the model equally often, also to evaluate it.",
        ],
    ),
    case(
        12,
        "a backward on rank 0 alone",
        ["loss = model(x).sum()", "if rank == 0:", "    loss.backward()"],
        [
            "rank 0 waits in the backward of a sharded model: cell In[",
            "All ranks must call backward equally often.",
        ],
    ),
]


@pytest.mark.parametrize("body, sentences", STALLS)
def test_what_takes_all_ranks_is_named_where_one_waits_in_it(kernel, body, sentences):
    text = failed(kernel, cell([*body, "dist.barrier()"]))
    assert "LaunchStalled: train on 2 ranks: stood still" in text
    for sentence in sentences:
        assert sentence in text, (sentence, text)


@pytest.mark.fault(12, "a block that one rank leaves out")
def test_ranks_that_run_other_blocks_are_told_so(kernel):
    # blocks of one size: else gloo, which takes one for another, ends the rank
    body = ["blocks = [fully_shard(nn.Linear(4, 4)) for _ in range(2)]"]
    body += ["for block in blocks[rank:]:", "    x = block(x)", "x.sum().backward()"]
    text = failed(kernel, cell(body))
    both = f"rank 0 is in {FORWARD} and rank 1 is in the backward of a sharded model."
    assert both in text, text
    assert "make calls for each of its blocks: all ranks must run the same" in text


@pytest.mark.fault(12, "a step that one of three ranks leaves out, at the end")
def test_a_rank_that_has_returned_is_named_to_those_in_a_forward(kernel):
    body = ["for _ in range(2 - (rank == 2)):", "    model(x).sum().backward()"]
    text = failed(kernel, cell(body, world_size=3))
    assert "lost its connection in its collective call" in text
    assert f"{FORWARD}, which gathers weights from all ranks; rank 2 is not." in text


@pytest.mark.fault(12, "full_tensor() while the other is in a backward")
def test_two_calls_that_take_all_ranks_are_both_named(kernel):
    # one group of weights, which a backward need not gather again
    body = ["loss = fully_shard(nn.Linear(4, 2))(x).sum()"]
    body += ["loss.backward() if rank else net.body.weight.full_tensor()"]
    text = failed(kernel, cell(body))
    both = "rank 0 is in full_tensor() and rank 1 is in the backward of a sharded model"
    assert both in text, text
    assert "must call each of them, equally often and in the same order" in text


@pytest.mark.fault(12, "full_tensor() of rank 0, in the place of a forward")
def test_a_call_that_met_another_one_is_told(kernel):
    body = ["for _ in range(2):", "    model(x).sum().backward()"]
    text = failed(kernel, cell([*body, "    rank or net.body.weight.full_tensor()"]))
    # gloo may take one for the other, and end either rank in a later line
    assert "rank 0 calls all_gather of f32[3, 4], rank 1 calls all_gather of" in text
    assert "run the same blocks" not in text


@pytest.mark.parametrize(
    "body, line",
    [
        case(
            12,
            "a stall for another reason, before a forward",
            ["if rank == 1:", "    dist.barrier()", "model(x)"],
            "keep rank 0 from line 6?",
        ),
        case(
            12,
            "a stall for another reason, after a step",
            ["model(x).sum().backward()", "if rank:", "    dist.barrier()"]
            + ["dist.all_reduce(x)"],
            "keep rank 0 from line 7?",
        ),
    ],
)
def test_a_stall_for_another_reason_is_not_that_of_sharding(kernel, body, line):
    text = failed(kernel, cell(body))
    assert line in text and "LaunchStalled" in text
    assert "sharded model, which" not in text and "equally often" not in text


WHOLE = "The model is sharded, and these weights are whole: set_model_state_dict(model,"
PART = "The weights of this Linear are still shards: "
ERRORS = [
    case(
        12,
        "a mesh of more ranks than there are",
        "dist.init_device_mesh(x.device.type, (2, 2))",
        "The mesh has 4 places, and there are 2 ranks",
    ),
    case(
        12,
        "whole weights",
        "model.load_state_dict(Net().state_dict())",
        WHOLE,
    ),
    case(
        12,
        "whole weights that are assigned",
        "model.load_state_dict(Net().to(x.device).state_dict(), assign=True)",
        WHOLE,
    ),
    case(
        12,
        "weights of another mesh",
        "mesh = dist.init_device_mesh(x.device.type, (2, 1))\n"
        "    whole = Net().to(x.device).state_dict().items()\n"
        "    model.load_state_dict("
        "{k: distribute_tensor(v, mesh, [Shard(0)] * 2) for k, v in whole})",
        "The weights are shards of a mesh of 2 x 1, the model's of 2 ranks.",
    ),
    case(
        12,
        "a rank's part without its place",
        "model.load_state_dict({k: v.to_local() for k, v in "
        "model.state_dict().items()})",
        "These weights have the sizes of this rank's part, as to_local() gives",
    ),
    case(
        12,
        "shards for a plain model",
        "Net().to(x.device).load_state_dict(model.state_dict())",
        "The weights are shards, and the model is plain",
    ),
    case(
        12,
        "a plain tensor beside a DTensor",
        "net.body.weight * torch.ones(6, 4, device=x.device)",
        "A DTensor does not compute with a plain tensor: take its full_tensor()",
    ),
    case(
        12,
        "a method that gathers nothing",
        "shard(Net().to(x.device)).encode(x)",
        f"{PART}fully_shard gathers them in model(x), and model.encode() is another",
    ),
    case(
        12,
        "a part that gathers nothing",
        "net.head(torch.ones(3, 6, device=x.device))",
        f"{PART}they are gathered when the module is called that fully_shard was given",
    ),
    case(
        12,
        "clipping with parameters that are in no shard",
        "half = Net().to(x.device)\n"
        "    fully_shard(half.body)\n"
        "    half(x).sum().backward()\n"
        "    nn.utils.clip_grad_norm_(half.parameters(), 1.0, foreach=True)",
        "Not sharded: head.weight, head.bias. fully_shard(model), after its blocks",
    ),
    case(
        12,
        "a collective of a DTensor",
        "dist.all_reduce(net.body.weight)",
        "Collectives take plain tensors, not DTensors",
    ),
    case(
        12,
        "the whole sharded before its part",
        "fully_shard(net.head)",
        "fully_shard takes the inner modules first, the whole model last.",
    ),
    case(
        12,
        "a model inside that fully_shard has not made",
        "model.module",
        "fully_shard wraps nothing, it changes the model itself: leave .module out.",
    ),
    case(
        12,
        "a GradScaler with an optimizer that was made before",
        "net = Net().to(x.device)\n"
        "    optimizer = torch.optim.SGD(net.parameters())\n"
        "    scaler = torch.amp.GradScaler(x.device.type)\n"
        "    scaler.scale(shard(net)(x).sum()).backward()\n"
        "    scaler.step(optimizer)",
        "4 of 4 parameters of this optimizer are not the model's any more",
    ),
]


@pytest.mark.parametrize("line, sentence", ERRORS)
def test_an_error_of_sharding_says_what_was_found_and_what_helps(
    kernel, line, sentence
):
    if OLD and "optimizer" in sentence:
        pytest.skip("needs torch 2.12")
    text = failed(kernel, cell([line]))
    assert "LaunchError: rank " in text and "-->   " in text
    assert sentence in text, text


@pytest.mark.fault(12, "a rank without a place in the mesh")
def test_a_rank_that_has_no_place_in_a_mesh_is_told_so(kernel):
    body = ["fully_shard(Net(), mesh=dist.init_device_mesh('cpu', (2,)))"]
    text = failed(kernel, cell(body, world_size=3))
    assert "A mesh of 2 has no place for rank 2 of 3" in text


@pytest.mark.fault(12, "the same errors and stalls on virtual GPUs")
def test_on_virtual_gpus_the_sentences_are_the_same(kernel):
    for line, sentence in (ERRORS[index].values for index in (1, 4, 8)):
        text = failed(kernel, cell([line], gpu=True))
        assert sentence in text, text
    body, sentences = STALLS[3].values
    text = failed(kernel, cell([*body, "dist.barrier()"], gpu=True))
    for sentence in sentences:
        assert sentence in text, (sentence, text)


def test_a_step_over_shards_and_whole_weights_is_not_about_devices(kernel):
    body = [
        "rest = nn.Linear(4, 4).to(x.device)",
        "(net(x).sum() + rest(x).sum()).backward()",
        "every = [*net.parameters(), *rest.parameters()]",
        "torch.optim.AdamW(every, fused=True).step()",
    ]
    text = failed(kernel, cell(body, gpu=True))
    assert "got mixed torch.Tensor and DTensor" in text, text
    assert "vgpu:0 and" not in text


OPTIMIZER = """def train(rank, world_size):
    net, x = begin({gpu})
    {early}
    model = shard(net, net.body)
    {late}
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()

cl.launch(train, world_size=2)"""
MADE = "optimizer = torch.optim.SGD(net.parameters(), 0.1)"


@pytest.mark.parametrize(
    "gpu, early, late, sentence",
    [
        case(
            12,
            "an optimizer made before fully_shard",
            False,
            MADE,
            "",
            "4 of 4 parameters of this optimizer are not the model's any more:",
        ),
        case(
            12,
            "an optimizer made before fully_shard, on virtual GPUs",
            True,
            MADE,
            "",
            "4 of 4 parameters of this optimizer are not the model's any more:",
        ),
        case(
            12,
            "an optimizer made between a forward and its backward",
            False,
            "",
            f"model(x); {MADE}",
            "2 of 4 parameters of this optimizer were gathered for a forward, and are",
        ),
    ],
)
def test_an_optimizer_of_other_parameters_warns_once(
    kernel, gpu, early, late, sentence
):
    if OLD and "any more" in sentence:
        pytest.skip("needs torch 2.12")
    text = shown(kernel.run(OPTIMIZER.format(gpu=gpu, early=early, late=late)))
    assert text.count(sentence) == 1 and "UserWarning" in text, text
    assert "optimizer.step()" in text


HEALTHY = """def train(rank, world_size):
    net, x = begin(False)
    other = Net()
    mended = torch.optim.Adam(net.parameters())
    net.body.requires_grad_(False)
    model = shard(net, net.body)
    mended.param_groups[0]["params"] = [*net.parameters()]
    frozen = torch.optim.Adam(net.parameters())
    beside = torch.optim.Adam(other.parameters())
    idle = torch.optim.Adam(shard(Net()).parameters())
    kept = Net()
    ignored = torch.optim.Adam(kept.head.parameters())
    fully_shard(kept, ignored_params={*kept.head.parameters()})
    emptied = torch.nn.Parameter(torch.ones(3))
    emptied.data.untyped_storage().resize_(0)
    by_hand = torch.optim.SGD([emptied])
    for _ in range(2):
        model(x).sum().backward()
        for optimizer in (mended, frozen, beside, idle, ignored, by_hand):
            optimizer.step()
    return "went on"

list(cl.launch(train, world_size=2))"""


@pytest.mark.fault(
    12, "optimizers that have no gradients for other reasons: no warning"
)
def test_an_optimizer_without_gradients_is_left_alone(kernel):
    text = shown(kernel.run(HEALTHY))
    assert "went on" in text and "this optimizer" not in text, text
