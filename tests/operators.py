"""Operators of PyTorch's own database on a virtual GPU, against the same on the CPU.

`python -m tests.operators [NAME ...]` prints a line of JSON before each operator, so
that one which ends the process is known, and a line after it. `--save` runs all of them
and writes the table tests/tables/operators.json.
"""

import gc
import itertools
import json
import sys
import warnings

import torch
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

from course_lib.accelerators.selection import devices
from course_lib.accelerators.vgpu import VirtualTensor
from tests import tables

SAMPLES = 3


def name_of(op):
    return ".".join(filter(None, (op.name, op.variant_test_name)))


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def plain(tree):
    """What is no tensor, as text: nan equals nan."""
    return repr([x for x in tree_leaves(tree) if not isinstance(x, torch.Tensor)])


def copied(tree, device):
    """The same tree with its tensors on the device; the word "cpu" becomes its name."""

    def copy(tensor):
        new = tensor.detach().to(device, copy=True)
        return new.requires_grad_(tensor.requires_grad)

    tree = tree_map_only(torch.Tensor, copy, tree)
    return tree_map_only((str, torch.device), lambda d: _moved(d, device), tree)


def _moved(value, device):
    return device if str(value) in ("cpu", "cpu:0") else value


def compare(want, got, device, *, values=True):
    """Raise AssertionError where `got` is not `want`, or is not on the device."""
    assert plain(want) == plain(got), f"{plain(got)} instead of {plain(want)}"
    want, got = tensors(want), tensors(got)
    assert len(want) == len(got), f"{len(got)} tensors instead of {len(want)}"
    for a, b in zip(want, got):
        assert isinstance(b, VirtualTensor), f"a result is a {type(b).__name__}"
        assert b.device == device, f"a result is on {b.device}"
        found, expected = ((t.shape, t.dtype, t.requires_grad) for t in (b, a))
        assert found == expected, f"{found} instead of {expected}"
        if values:
            assert_close(b.detach().cpu(), a.detach(), equal_nan=True)


def gradients(outputs, inputs):
    """Gradients of the inputs; None where there is nothing to differentiate."""
    inputs = [t for t in tensors(inputs) if t.requires_grad]
    outputs = [t for t in tensors(outputs) if t.requires_grad]
    if not inputs or not outputs:
        return None
    seeds = [torch.ones_like(t) for t in outputs]
    return torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)


def storages(tree):
    """Bytes in all storages of virtual tensors, each counted once."""
    found = (t.elem.untyped_storage() for t in tensors(tree))
    return sum({s._cdata: s.nbytes() for s in found}.values())


def charged(tree, device, base):
    """Raise AssertionError unless the tree holds all that was taken since `base`."""
    taken = torch.vgpu.memory_allocated(device) - base
    held = storages(tree)
    assert taken == held, f"{taken} bytes are charged for tensors of {held}"


def attempt(function):
    """A result, or None where the CPU itself refuses."""
    torch.manual_seed(0)
    try:
        return (function(),)
    except Exception:
        return None


class Disagreement(Exception):
    """What differs, after the stage in which it does."""


def run_sample(op, sample, device, *, backward=True, values=True):
    """Compare one sample; return how far it got: nothing, "forward", "backward"."""
    base = torch.vgpu.memory_allocated(device)
    given = sample.input, sample.args, sample.kwargs
    here, there = copied(given, torch.device("cpu")), copied(given, device)
    want = attempt(lambda: op(here[0], *here[1], **here[2]))
    if want is None:
        return None
    stage = "forward"
    try:
        torch.manual_seed(0)
        got = op(there[0], *there[1], **there[2])
        compare(want[0], got, device, values=values)
        slopes = attempt(lambda: gradients(want[0], here)) if backward else None
        if slopes is not None and slopes[0] is not None:
            stage = "backward"
            torch.manual_seed(0)
            compare(slopes[0], gradients(got, there), device, values=values)
        got = [t.detach() for t in tensors(got)]
        charged((there, got), device, base)
        return stage
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise Disagreement(f"{stage}: {reason[:300]}") from error


def run(op, device, *, dtype=torch.float32, samples=SAMPLES):
    """Compare the first samples: how far the furthest got, and what disagreed."""
    backward = op.supports_autograd and dtype in op.backward_dtypes
    inputs = op.sample_inputs("cpu", dtype, requires_grad=backward)
    reached = set()
    for sample in itertools.islice(inputs, samples):
        options = {"backward": backward, "values": "empty" not in op.name}
        try:
            reached.add(run_sample(op, sample, device, **options))
        except Disagreement as error:
            failed = str(error)
            break
    else:
        return next((s for s in ("backward", "forward") if s in reached), "nothing"), ""
    gc.collect()  # the error kept tensors that the next operator must not find
    return "", failed


def chosen(names):
    """The operators of these names, or all, that take float32."""
    ops = [op for op in op_db if torch.float32 in op.dtypes]
    return [op for op in ops if not names or {name_of(op), op.name} & set(names)]


def main(names):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # the CPU's kernel rounds more, up to 3e-5, and has no derivatives of its own
    torch.backends.cuda.enable_flash_sdp(False)
    device = devices(2, quiet=True)[1]
    save, rows = "--save" in names, {}
    for op in chosen([name for name in names if name != "--save"]):
        print(json.dumps([name_of(op)]), flush=True)
        rows[name_of(op)] = run(op, device)
        print(json.dumps([name_of(op), *rows[name_of(op)]]), flush=True)
    if save:
        print(tables.write("operators", rows))


if __name__ == "__main__":
    main(sys.argv[1:])
