"""The small GPT of the lessons: what it computes, and what it keeps for backward."""

import ast
import contextlib
import gc
import json
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from course_lib.accelerators import gpt_memory
from course_lib.gpt import GPT, Block, Recomputed
from course_lib.launching.launcher import launch
from tests import lesson_code
from tests.layers import ROOT

# measured with torch.cuda; its "what" says how
H200 = json.loads((ROOT / "benchmarks/gpu/recorded/H200.json").read_text())["ahead"]
LAYER = re.compile(
    r"layer c=(\d+) heads=(\d+) s=(\d+) b=(\d+) (\w+) (\w+) dropout=0\.0"
)
WHOLE = re.compile(r"GPT \w+ L=(\d+) c=(\d+) b=(\d+) s=(\d+) recompute=(\d) autocast")
TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
# batch, length, width, heads
SHAPES = [
    *((3, 100, 96, 4), (2, 256, 128, 8), (5, 33, 64, 2), (1, 7, 24, 3), (7, 19, 40, 1)),
    *((2, 301, 48, 6), (9, 64, 56, 7), (1, 130, 160, 5), (4, 11, 192, 12)),
]


class PlainBlock(Block):
    """The same layer with attention by single operators, which keep length x length."""

    def attention(self, x):
        heads = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        found = scores.masked_fill(later, -torch.inf).softmax(-1) @ value
        return self.out(found.transpose(1, 2).flatten(2))


def recomputed(model, numbers):
    """Let backward run these blocks again."""
    for number in numbers:
        model.blocks[number] = Recomputed(model.blocks[number])


def autocast(dtype):
    return torch.autocast("vgpu", dtype) if dtype else contextlib.nullcontext()


@pytest.mark.parametrize(
    ("lesson", "cell", "name"),
    [("02b", "block", "Block"), ("02b", "model", "GPT"), ("02c", "wrap", "Recomputed")],
)
def test_lessons_show_the_lines_of_the_model(lesson, cell, name):
    shown = _class(lesson_code.cells(lesson)[cell], name)
    assert shown == _class((ROOT / "course_lib/gpt.py").read_text("utf-8"), name)


def _class(source, name):
    """The code of a class, without docstrings and layout."""
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    for node in ast.walk(found):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(found)


def grown(device, forward):
    """The bytes by which what is allocated grows in a call whose result stays."""
    gc.collect()
    gc.freeze()  # what is there already is looked through no more
    before = torch.vgpu.memory_allocated(device)
    kept = forward()
    gc.collect()
    after = torch.vgpu.memory_allocated(device)
    del kept
    return after - before


def counted(device, shape, dtype, *, kind=Block, recompute=False):
    """The bytes that a layer keeps: its input in, its output out, which is as large."""
    batch, length, width, heads = shape
    block = kind(width, heads).to(device)
    x = torch.rand(batch, length, width, device=device, requires_grad=True)

    def forward():
        with autocast(dtype):
            return checkpoint(block, x, use_reentrant=False) if recompute else block(x)

    return grown(device, forward)


def account(shape, dtype, *, plain=False):
    """The same bytes by arithmetic."""
    count = gpt_memory.layer(*shape, bits=16 if dtype else 32, plain=plain)
    return count + (gpt_memory.cast_weights(shape[2]) if dtype else 0)


# --- what a layer keeps


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_layer_keeps_what_is_counted(devs, shape, dtype):
    # to the two numbers that tell the kernel of attention its random state
    assert counted(devs[0], shape, dtype) == account(shape, dtype) + 16
    found = counted(devs[0], shape, dtype, recompute=True)
    assert found == gpt_memory.recomputed(*shape[:3])
    found = counted(devs[0], shape, dtype, kind=PlainBlock)
    assert found == pytest.approx(account(shape, dtype, plain=True), rel=0.001)


def test_copies_of_weights_and_biases_live_as_long_as_autocast(devs):
    batch, length, width, heads = 2, 20, 32, 4
    block = Block(width, heads).to(devs[0])
    x = torch.rand(batch, length, width, device=devs[0], requires_grad=True)
    copies, biases = gpt_memory.cast_weights(width), 2 * 9 * width
    with torch.autocast("vgpu", torch.bfloat16):
        found = grown(devs[0], lambda: checkpoint(block, x, use_reentrant=False))
        assert found == gpt_memory.recomputed(batch, length, width) + copies + biases


def recorded(pattern):
    """Pairs of what the name of a recorded row says, and the row."""
    named = ((pattern.fullmatch(name), row) for name, row in H200.items())
    return [(match.groups(), row) for match, row in named if match]


@pytest.mark.parametrize(("name", "row"), recorded(LAYER), ids=lambda v: str(v)[:60])
def test_a_layer_keeps_as_much_on_an_h200(name, row):
    width, heads, length, batch = map(int, name[:4])
    shape, dtype = (batch, length, width, heads), TYPES[name[4]]
    # CUDA's allocator hands out some blocks that are up to 1 MiB too large
    expected = account(shape, dtype, plain=name[5] == "plain")
    assert expected <= row["held"] < 1.02 * expected


@pytest.mark.parametrize("kind", [Block, PlainBlock])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_virtual_gpu_counts_what_an_h200_held(devs, dtype, kind):
    attention = "plain" if kind is PlainBlock else "efficient"
    name = f"layer c=384 heads=6 s=256 b=32 {dtype} {attention} dropout=0.0"
    found = counted(devs[0], (32, 256, 384, 6), TYPES[dtype], kind=kind)
    assert found == pytest.approx(H200[name]["held"], rel=0.005)


def test_korthikantis_layer_is_ours_with_dropout_and_16_bits_throughout():
    batch, length, width, heads = 3, 512, 1024, 16
    scale = length * batch * width
    parts = gpt_memory.kept(batch, length, width, heads, bits=16)
    streams = [parts.pop(name) for name in ("input", "input of the second norm")]
    del parts["means, deviations, sums"]  # the paper leaves out what is small
    masks = 2 * scale  # of dropout behind attention and behind the MLP, a byte each
    assert sum(parts.values()) + sum(streams) / 2 + masks == 34 * scale
    # its 5 a s / h: softmax, dropout's mask, what dropout gives
    scores = batch * heads * length**2
    assert 5 * heads * length / width * scale == (2 + 1 + 2) * scores


# --- what a GPT keeps


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("recompute", [(), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_a_gpt_keeps_what_is_counted(devs, shape, recompute, dtype):
    batch, length, width, heads = shape
    model = GPT(context=length + 3, width=width, heads=heads, layers=3).to(devs[0])
    recomputed(model, recompute)
    tokens, targets = torch.randint(96, (2, batch, length), device=devs[0])

    def forward():
        with autocast(dtype):
            return cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    bits = 16 if dtype else 32
    expected = gpt_memory.model(*shape, 3, bits=bits, recompute=len(recompute))
    assert grown(devs[0], forward) == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize(("name", "row"), recorded(WHOLE), ids=lambda v: str(v)[:60])
def test_a_gpt_keeps_as_much_on_an_h200(name, row):
    layers, width, batch, length, recompute = map(int, name)
    expected = gpt_memory.model(
        *(batch, length, width, width // 64, layers),
        **{"bits": 16, "recompute": layers * recompute, "words": 50_304},
    )
    # it began with gradients, which zero_grad let go before forward
    found = row["after forward"] - row["rest"] + 4 * row["parameters"]
    assert found == pytest.approx(expected, rel=0.01)


# --- what it computes


def small(**options):
    torch.manual_seed(0)
    return GPT(**{"context": 16, "width": 32, "heads": 2, "layers": 3} | options)


def draw(*shape):
    return torch.randint(96, shape, generator=torch.Generator().manual_seed(1))


def loss_of(model, tokens):
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def test_its_embedding_and_its_head_are_one_table():
    model = GPT()
    assert sum(p.numel() for p in model.parameters()) == 210_304
    assert model.last.weight is model.tokens.weight
    loss_of(model, draw(2, 9)).backward()
    both = model.last.weight.grad.clone()
    parts = GPT()
    parts.load_state_dict(model.state_dict())
    parts.last.weight = nn.Parameter(model.tokens.weight.detach().clone())
    loss_of(parts, draw(2, 9)).backward()
    torch.testing.assert_close(both, parts.last.weight.grad + parts.tokens.weight.grad)


def test_no_token_looks_ahead():
    model, tokens = small(), draw(3, 16)
    before = model(tokens)
    for place in (1, 7, 15):
        other = tokens.clone()
        other[:, place] = (other[:, place] + 1) % 96
        changed = (model(other) - before).abs().amax((0, 2))
        assert changed[:place].max() < 1e-5 < 1e-3 < changed[place:].min()


def gradients(model, tokens):
    torch.manual_seed(7)  # for dropout
    model.zero_grad()
    loss_of(model, tokens).backward()
    return [p.grad.cpu() for p in model.parameters()]


@pytest.mark.parametrize("place", ["cpu", "virtual"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_are_those_without_recomputation(devs, dropout, place):
    model, tokens = small(), draw(4, 12)
    for block in model.blocks:
        block.mlp.append(nn.Dropout(dropout))
    if place == "virtual":
        model, tokens = model.to(devs[0]), tokens.to(devs[0])
    want = gradients(model, tokens)
    for more in ((0,), (2,), (1,)):
        recomputed(model, more)
        assert all(map(torch.equal, gradients(model, tokens), want)), more
    torch.manual_seed(8)
    other = torch.autograd.grad(loss_of(model, tokens), model.parameters())
    # masks are others with another seed, so that it is the state that was restored
    same = [torch.equal(one.cpu(), two) for one, two in zip(other, want, strict=True)]
    assert all(same) == (not dropout)


def trained(model, parts):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for tokens in parts:
        optimizer.zero_grad()
        loss_of(model, tokens).backward()
        optimizer.step()


def train(rank, world_size, recompute):
    dist.init_process_group("gloo")
    model = small()
    recomputed(model, recompute)
    batches = draw(3, 4 * world_size, 12)
    trained(DistributedDataParallel(model), batches[:, rank::world_size])
    dist.destroy_process_group()
    return {name.replace(".part", ""): w for name, w in model.state_dict().items()}


def test_in_ranks_it_ends_with_the_weights_of_one_process():
    ranks, alone = launch(train, (0, 2), world_size=2), small()
    trained(alone, draw(3, 8, 12))
    start = small().state_dict()
    for name, weight in alone.state_dict().items():
        torch.testing.assert_close(ranks[0][name], weight, rtol=1e-4, atol=1e-5)
        assert torch.equal(ranks[0][name], ranks[1][name])
        assert not torch.equal(weight, start[name])
