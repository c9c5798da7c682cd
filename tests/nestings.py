"""PyTorch's own operators and modules under jvp, vjp, vmap and all pairs of these.

Each case is one of its databases under one transform on a virtual GPU, against the same
on the CPU. `python -m tests.nestings [NAME ...]` runs them in child processes, so that
one which ends the process, or does not end, is known by its name; the next child goes
on after it. `--save` runs all and writes the table tests/tables/nestings.json, which
has the counts of each transform and the cases that do not agree.
"""

import functools
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.func import functional_call, jvp, vjp, vmap
from torch.testing import assert_close
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from course_lib.accelerators.selection import devices
from tests import tables
from tests.operators import chosen, copied, name_of, tensors

SAMPLES = 3
LIMIT = 60  # seconds for a case
START = 600  # for a child to start, on a busy machine
CHILD = (sys.executable, "-m", "tests.nestings", "--child")
# what may come of a case; the table has the last five by name
EQUAL, BOTH, NOTHING = "equal", "refused on both", "nothing to compare"
MORE, REFUSED = "refused on the CPU only", "refused on the device only"
DIFFERS, ENDED, HANGS = "differs", "ended the process", "hangs"
AGREE = (EQUAL, BOTH, NOTHING)


# --- transforms: each makes a function of the same tensors, which gives a tuple


def with_tangents(function):
    def transformed(*inputs):
        tangents = tuple(torch.ones_like(x) for x in inputs)
        return sum(jvp(function, inputs, tangents), ())

    return transformed


def with_slopes(function):
    def transformed(*inputs):
        outputs, pull = vjp(function, *inputs)
        return outputs + pull(tuple(torch.ones_like(x) for x in outputs))

    return transformed


def over_a_batch(function):
    def transformed(*inputs):
        batches = [torch.stack([x, x]) for x in inputs]
        return vmap(function, randomness="same")(*batches)

    return transformed


SINGLE = {"jvp": with_tangents, "vjp": with_slopes, "vmap": over_a_batch}
TRANSFORMS = {name: (transform,) for name, transform in SINGLE.items()}
TRANSFORMS |= {
    f"{outer} of {inner}": (SINGLE[inner], SINGLE[outer])
    for outer, inner in itertools.product(SINGLE, SINGLE)
}


# --- subjects: operators and modules, as functions of tensors


def subjects():
    """By its name what gives the samples of each operator and module."""
    found = {name_of(op): functools.partial(samples_of, op) for op in chosen(())}
    for op in chosen(()):
        if op.inplace_variant is not None:
            found[f"{name_of(op)}_"] = functools.partial(samples_of, op, written)
    for module in module_db:
        if torch.float32 in module.dtypes:
            found[module.name] = functools.partial(samples_of_module, module)
    return found


def written(op):
    """The operator in place, on a copy of its input."""
    return lambda first, *args, **kwargs: op.inplace_variant(
        first.clone(), *args, **kwargs
    )


def samples_of(op, variant=lambda op: op):
    """What makes, of each of the first samples, a function and tensors on a device."""
    slopes = op.supports_autograd and torch.float32 in op.backward_dtypes
    inputs = op.sample_inputs("cpu", torch.float32, requires_grad=slopes)
    for sample in itertools.islice(inputs, SAMPLES):
        given = sample.input, sample.args, sample.kwargs
        yield functools.partial(prepared, variant(op), given)


def prepared(op, given, device):
    leaves, tree = tree_flatten(copied(given, device))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    smooth = [i for i in places if leaves[i].is_floating_point()]
    slopes = [i for i in smooth if leaves[i].requires_grad]
    places = slopes or smooth or places

    def function(*inputs):
        now = list(leaves)
        for place, value in zip(places, inputs):
            now[place] = value
        first, args, kwargs = tree_unflatten(now, tree)
        return results(op(first, *args, **kwargs))

    return function, [leaves[place].detach() for place in places]


def samples_of_module(info):
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": True}
    inputs = info.module_inputs_func(info, training=False, **options)
    for sample in itertools.islice(inputs, SAMPLES):
        built, given = sample.constructor_input, sample.forward_input
        if given is not None:
            torch.manual_seed(0)
            module = info.module_cls(*built.args, **built.kwargs).eval()
            yield functools.partial(called, module, (given.args, given.kwargs))


def called(module, given, device):
    module = module.to(device)
    names = [name for name, _ in module.named_parameters()]
    leaves, tree = tree_flatten(copied(given, device))
    smooth = [i for i, x in enumerate(leaves) if _is_smooth(x)]

    def function(*inputs):
        now = list(leaves)
        for place, value in zip(smooth, inputs):
            now[place] = value
        args, kwargs = tree_unflatten(now, tree)
        weights = dict(zip(names, inputs[len(smooth) :]))
        return results(functional_call(module, weights, args, kwargs))

    weights = [weight.detach() for weight in module.parameters()]
    return function, [leaves[place].detach() for place in smooth] + weights


def _is_smooth(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def results(tree):
    """The tensors that have slopes; all of them where none has."""
    found = tensors(tree)
    smooth = [x for x in found if x.is_floating_point() or x.is_complex()]
    return tuple(smooth or found)


# --- cases: a subject under a transform


def outcome(prepare, transforms, device, *, values):
    """What came of one sample: its kind, and the reason where they do not agree."""
    want, reason = attempt(prepare, transforms, torch.device("cpu"))
    got, error = attempt(prepare, transforms, device)
    if want is None and got is None:
        return BOTH, ""
    if want is None:
        return MORE, reason
    if got is None:
        return REFUSED, error
    if not want:
        return NOTHING, ""
    try:
        agree(want, got, device, values=values)
    except AssertionError as difference:
        return DIFFERS, " ".join(str(difference).split())[:300]
    return EQUAL, ""


def attempt(prepare, transforms, device):
    """The results on a device and "", or None and the reason."""
    try:
        function, inputs = prepare(device)
        if not inputs:
            return (), ""
        for transform in transforms:
            function = transform(function)
        torch.manual_seed(0)
        return [x.detach() for x in function(*inputs)], ""
    except Exception as error:
        return None, " ".join(f"{type(error).__name__}: {error}".split())[:300]


def agree(want, got, device, *, values):
    assert len(want) == len(got), f"{len(got)} tensors instead of {len(want)}"
    for a, b in zip(want, got):
        assert b.device == device, f"a result is on {b.device}"
        found, expected = (b.shape, b.dtype), (a.shape, a.dtype)
        assert found == expected, f"{found} instead of {expected}"
        if values:
            # PyTorch has other formulas for subclasses of tensors, cumprod's for one
            assert_close(b.cpu(), a, rtol=1e-5, atol=1e-5, equal_nan=True)


def child(names):
    """Run all cases of the subjects, with a line before and a line after each."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # the CPU's kernel rounds more, up to 3e-5, and has no derivatives of its own
    torch.backends.cuda.enable_flash_sdp(False)
    device, all_subjects = devices(2, quiet=True)[1], subjects()
    for name, _, only in (name.partition(": ") for name in names):
        samples = list(all_subjects[name]())
        for transform, chain in TRANSFORMS.items():
            if only not in ("", transform):
                continue
            print(json.dumps([name, transform]), flush=True)
            found = [(NOTHING, "")]
            for prepare in samples:
                values = "empty" not in name  # what such memory holds is chance
                found.append(outcome(prepare, chain, device, values=values))
            # the sample that agrees least counts; one that was compared before none
            kind, reason = max(found, key=lambda row: _WORST.index(row[0]))
            print(json.dumps([name, transform, kind, reason]), flush=True)


_WORST = [NOTHING, EQUAL, BOTH, MORE, REFUSED, DIFFERS]


# --- the parent


def run(names):
    """Rows of all cases of these subjects; one that ends its child is recorded."""
    rows, names = {}, list(names)
    while names:
        last = _run_child(names, rows)
        if last is None:
            break
        name, case = last[0], ": ".join(last)
        if case not in names:  # the cases of this subject one by one, then the others
            place = names.index(name)
            names[place : place + 1] = [f"{name}: {way}" for way in TRANSFORMS]
        names = names[names.index(case) + 1 :]
    return rows


def _run_child(names, rows):
    """Run one child; the case in which it ended, or None at the end of all."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    process, lines = subprocess.Popen([*CHILD, *names], **options), queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines))
    reader.start()
    begun, line = None, ""
    while line is not None:
        try:
            line = lines.get(timeout=LIMIT if begun else START)
        except queue.Empty:
            process.kill()
            assert begun, f"a child did not start in {START} s"
            rows[tuple(begun)] = (HANGS, f"over {LIMIT} s")
            break
        if line and line[0] == "[":
            row = json.loads(line)
            begun = row if len(row) == 2 else None
            if begun is None:
                rows[tuple(row[:2])] = tuple(row[2:])
    process.wait()
    reader.join()
    if begun and tuple(begun) not in rows:
        rows[tuple(begun)] = (ENDED, f"exit status {process.returncode}")
    assert begun or process.returncode == 0, f"a child failed at {names[:9]}"
    return begun


def _read(file, lines):
    for line in file:
        lines.put(line)
    lines.put(None)


def table(rows):
    """Counts of each transform, then the cases that do not agree."""
    found = {}
    for transform in TRANSFORMS:
        kinds = Counter(kind for (_, t), (kind, _) in rows.items() if t == transform)
        found[transform] = dict(kinds.most_common())
    odd = {case: row for case, row in sorted(rows.items()) if row[0] not in AGREE}
    return found | {f"{name}: {t}": row for (name, t), row in odd.items()}


def run_all(names=()):
    """Rows of all cases of these subjects, or of all, a child for each core."""
    names, rows, jobs = list(names or subjects()), {}, os.cpu_count() or 1
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(run, (names[job::jobs] for job in range(jobs))):
            rows |= part  # a child that fails ends this, too
    return rows


def main(names):
    if names[:1] == ["--child"]:
        return child(names[1:])
    began = time.monotonic()
    rows = run_all([name for name in names if name != "--save"])
    found = table(rows)
    for name, row in found.items():
        print(json.dumps([name, row]))
    print(f"{len(rows)} cases in {time.monotonic() - began:.0f} s")
    if "--save" in names:
        print(tables.write("nestings", found))


if __name__ == "__main__":
    main(sys.argv[1:])
