"""Each private part of PyTorch that the package uses is there, and does what is needed.

`python -m tests.test_torch_private` prints a line for each that is not; `make try-torch
VERSION=2.12.0` does so with another torch. docs/torch_private.md says what to do then.
"""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "course_lib"
TABLE = ROOT / "docs/torch_private.md"
# underscored names that are Python's own or IPython's, not PyTorch's
OTHERS = {
    *("_asdict", "_bootstrap", "_clear", "_current_exceptions", "_current_frames"),
    *("_exit", "_exit_function", "_exitfunc", "_getframe", "_is_mine", "_is_zero"),
    *("_registry", "_replace", "_repr_mimebundle_", "_run_exitfuncs", "_semlock"),
    *("_shutdown",),
    *("_wait_for_tstate_lock", "_worker"),
}
# and parts of PyTorch that are private by not being in its documentation
UNDOCUMENTED = {
    *("PrivateUse1", "flop_registry", "kineto_results", "linked_correlation_id"),
    *("master_listen_fd", "parallel_apply", "pg_names"),
}


def names_used(path):
    """Underscored names of other objects that a module names, and undocumented ones."""
    text = path.read_text(encoding="utf-8")
    names, own = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            (own if of_self else names).add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            source = getattr(node, "module", None) or ""
            dotted = [source, *(alias.name for alias in node.names)]
            names.update(name for path in dotted for name in path.split("."))
        elif isinstance(node, ast.Call | ast.Tuple | ast.Set | ast.Compare):
            names.update(map(_text, ast.iter_child_nodes(node)))
    private = {name for name in names if re.fullmatch(r"_[A-Za-z]\w*", name)}
    undocumented = {name for name in UNDOCUMENTED if re.search(rf"\b{name}\b", text)}
    return private - own - OTHERS | undocumented


def _text(node):
    """What a string says, as the name that getattr is asked for; else ""."""
    return str(node.value) if isinstance(node, ast.Constant) else ""


def rows():
    """Module, private parts, purpose, advice and probe: the lines of the table."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = (line.strip("| ").split(" | ") for line in lines if line.startswith("| `"))
    return [[cell.strip() for cell in row] for row in cells]


def named(parts):
    """The names in the second column that a reader of the package would search for."""
    words = re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", parts)))
    return {w for w in words if re.match(r"_[A-Za-z]", w) or w in UNDOCUMENTED}


# --- probes: each raises if what the package needs is not there


def has(path, *parameters):
    """What a dotted path names, with these parameters."""
    module, _, rest = path.partition(":")
    value = importlib.import_module(module)
    for name in rest.split("."):
        value = getattr(value, name)
    if parameters:
        missing = set(parameters) - set(inspect.signature(value).parameters)
        assert not missing, f"{rest} has no parameter {', '.join(missing)}"
    return value


def vgpu():
    """A virtual GPU of this process."""
    from course_lib.accelerators.selection import devices

    return devices(1, quiet=True)[0]


def backend():
    has(
        "torch.utils.backend_registration:_setup_privateuseone_for_python_backend",
        *("rename", "backend_module", "device_guard"),
    )
    assert torch.ones(2, device=vgpu()).device.type == "vgpu"


def guard():
    has("torch:_C._acc.DeviceGuard")
    weight = torch.ones(2, device=vgpu(), requires_grad=True)
    weight.sum().backward()
    assert weight.grad.tolist() == [1, 1]


def fallback():
    assert torch.tensor([1.0, 2.0], device=vgpu()).sum().item() == 3
    assert torch.rand(3, device=vgpu()).device.type == "vgpu"


def foreach():
    assert isinstance(has("torch.optim.optimizer:_foreach_supported_types"), list)


def engine():
    engine = has("torch.autograd:_engine_run_backward")
    weight = torch.ones(1, requires_grad=True)
    assert "_engine_run_backward" in inspect.getsource(torch.autograd.backward)
    engine((weight.sum(),), (torch.tensor(1.0),), False, False, (), True, True)


def moved_modules():
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    has("torch:_has_compatible_shallow_copy_type")
    assert layer.to(vgpu()).weight is weight
    assert layer.to("cpu").weight is weight
    assert type(weight) is torch.nn.Parameter


def data_parallel():
    for name in ("_get_stream", "Broadcast", "Gather", "Scatter"):
        has(f"torch.nn.parallel._functions:{name}")
    has("torch._utils:_get_available_device_type")
    for name in ("broadcast", "reduce_add", "scatter", "gather"):
        has(f"torch.nn.parallel.comm:{name}")
    assert sys.modules["torch.nn.parallel.parallel_apply"].threading.Thread


def flat_tensors():
    flatten = has("torch._utils:_flatten_dense_tensors")
    unflatten = has("torch._utils:_unflatten_dense_tensors")
    take = has("torch._utils:_take_tensors")
    parts = [torch.zeros(2, 2), torch.ones(3)]
    assert len(unflatten(flatten(parts), parts)) == 2
    assert [len(bucket) for bucket in take(parts, 1)] == [1, 1]


def crossings():
    for name in ("_to_copy", "_conj", "_neg_view", "_local_scalar_dense"):
        getattr(torch.ops.aten, name)
    assert torch.ones(1, device=vgpu()).double().cpu().item() == 1


def dispatch_keys():
    has("torch:_C.DispatchKey.Conjugate")
    has("torch:_C.DispatchKey.Negative")
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.Negative, False):
        pass


def operators():
    mm = torch.ops.aten.mm.default
    assert [a.name for a in mm._schema.arguments] == ["self", "mat2"]
    assert not mm._can_decompose()
    assert mm.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU)
    names = ("_index_put_impl_", "_unsafe_index", "_ctc_loss")
    for name in (*names, "_pack_padded_sequence", "_resize_output_"):
        getattr(torch.ops.aten, name)


def flop_counts():
    registry = has("torch.utils.flop_counter:flop_registry")
    assert torch.ops.aten.convolution in registry


def wrapped_tensors():
    has("torch:Tensor._make_wrapper_subclass")
    has("torch:_C._disabled_torch_function_impl")
    one = torch.ones(2, 3, device=vgpu())
    assert one[1].tolist() == [1, 1, 1]


def tensor_data():
    tensor = torch.ones(2, requires_grad=True)
    assert torch._C.TensorBase.data.__get__(tensor).tolist() == [1, 1]


def printed_tensors():
    has("torch:_tensor_str._tensor_str", "self", "indent")
    has("torch:_tensor_str._str_intern", "tensor_contents")
    assert repr(torch.ones(2, device=vgpu())).startswith("tensor([1., 1.]")


def rebuilt_tensors():
    has("torch._utils:_rebuild_parameter", "data", "requires_grad")
    has("torch._utils:_rebuild_device_tensor_from_cpu_tensor", "data", "device")


def reshaped_tensors():
    has("torch:_C._meta_in_tls_dispatch_include")
    has("torch:_C._set_meta_in_tls_dispatch_include")
    has("torch.utils._mode_utils:no_dispatch")
    one = torch.ones(2, device=vgpu())
    assert one.resize_(4, 4).shape == (4, 4)


def swapped_tensors():
    one, two = torch.zeros(1), torch.ones(2)
    torch._C._swap_tensor_impl(one, two)
    assert (one.shape, two.shape) == ((2,), (1,))


def storage_keys():
    one, other = torch.ones(4), torch.ones(4)
    keys = [t.untyped_storage()._cdata for t in (one, one[2:], other)]
    assert keys[0] == keys[1] != keys[2]


def parameters():
    assert torch.nn.Parameter(torch.ones(1, device=vgpu()))._is_param
    assert "self" in torch.nn.Module._apply.__code__.co_varnames


def norms():
    assert isinstance(
        torch.nn.BatchNorm2d(1), has("torch.nn.modules.batchnorm:_BatchNorm")
    )


def modes():
    from torch.utils._python_dispatch import TorchDispatchMode

    written = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            arguments = func._schema.arguments
            written.append([a.name for a in arguments if a.alias_info])
            return func(*args, **kwargs or {})

    with Mode():
        torch.ones(2).add_(1)
    assert written[-1] == ["self"]


def compiler_rules():
    has("torch._dynamo.trace_rules:clear_lru_cache")


def store():
    has("torch.distributed:TCPStore")
    module = importlib.import_module("torch.distributed.rendezvous")
    assert "_create_c10d_store" in inspect.getsource(module._tcp_rendezvous_handler)
    assert "master_listen_fd" in torch.distributed.TCPStore.__init__.__doc__
    parameters = list(inspect.signature(module._create_c10d_store).parameters)
    assert parameters[:5] == ["hostname", "port", "rank", "world_size", "timeout"]


def _meet():
    """A gloo group of this process alone, in a block."""
    from contextlib import contextmanager

    import torch.distributed as dist

    @contextmanager
    def group():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            yield dist
        finally:
            dist.destroy_process_group()

    return group()


def groups():
    from course_lib.launching.watchdog.responder import process_groups

    with _meet() as dist:
        assert list(process_groups().values()) == [("0", [0])]
        assert list(process_groups()) == [dist.group.WORLD]


def kinds_of_work():
    from course_lib.launching.watchdog.responder import _operation

    with _meet() as dist:
        works = [
            dist.all_reduce(torch.ones(1), async_op=True),
            dist.broadcast(torch.ones(1), 0, async_op=True),
            dist.barrier(async_op=True),
        ]
        kinds = [_operation(work) for work in works]
    assert kinds == ["all_reduce", "broadcast", "barrier"], kinds


def flight_recorder():
    from course_lib.tracing.flight_recorder import entries, newest, read

    with _meet() as dist:
        dist.all_reduce(torch.ones(3))
        (call,) = newest(read(entries()))
    assert str(call) == "all_reduce of f32[3]", call
    assert (call.number, call.bytes, call.backend) == (1, 12, "gloo"), call


def profiled_operators():
    from course_lib.tracing import ranks

    has("torch.autograd:_profiler_enabled")
    with ranks.record() as recording, _meet() as dist:
        torch.ones(64, 64) @ torch.ones(64, 64)
        dist.all_reduce(torch.ones(3))
    marks = {(mark.kind, mark.name, mark.bytes) for mark in recording.events}
    wanted = {("compute", "matmul", 0), ("communicate", "all_reduce", 12)}
    assert wanted <= marks, marks


def optimizer_steps():
    from course_lib.tracing import ranks

    weight = torch.ones(512, 512, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    weight.grad = torch.ones_like(weight)
    with ranks.record() as recording:
        optimizer.step()
    assert "optimizer" in {mark.name for mark in recording.events}


def cuda_memory():
    has("torch.cuda.memory:_record_memory_history", "enabled", "context")
    has("torch.cuda.memory:_snapshot")


PROBES = {
    probe.__name__: probe
    for probe in (
        *(backend, guard, fallback, foreach, engine, moved_modules, data_parallel),
        *(flat_tensors, crossings, dispatch_keys, operators, flop_counts, modes, norms),
        *(wrapped_tensors, tensor_data, printed_tensors, rebuilt_tensors),
        *(reshaped_tensors, swapped_tensors, storage_keys, parameters),
        *(compiler_rules, store, groups, kinds_of_work, flight_recorder),
        *(profiled_operators, optimizer_steps, cuda_memory),
    )
}


def broken(name):
    """In one line what does not hold, and what it means; "" if all is well."""
    try:
        PROBES[name]()
    except Exception as error:
        uses = [row for row in rows() if row[4] == f"`{name}`"]
        parts = "; ".join(f"{row[0]} uses {row[1]} for {row[2]}" for row in uses)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return f"{name}: {parts}: {reason[:200]}".replace("`", "")
    return ""


@pytest.mark.parametrize("name", PROBES)
def test_a_private_part_does_what_the_package_needs(name):
    sentence = broken(name)
    if sentence:
        pytest.fail(sentence, pytrace=False)


def test_a_probe_that_fails_says_in_one_line_what_breaks(monkeypatch):
    monkeypatch.delattr(torch._C, "_swap_tensor_impl")
    sentence = broken("swapped_tensors")
    assert "accelerators/vgpu/tensors.py uses torch._C._swap_tensor_impl" in sentence
    assert "\n" not in sentence


def test_the_table_names_what_the_package_uses():
    used = {}
    for path in PACKAGE.rglob("*.py"):
        if names := names_used(path):
            used[path.relative_to(PACKAGE).as_posix()] = sorted(names)
    table = {}
    for module, parts, *_ in rows():
        table.setdefault(module.strip("`"), set()).update(named(parts))
    assert {module: sorted(names) for module, names in table.items()} == used


def test_each_row_of_the_table_has_its_probe():
    assert {row[4].strip("`") for row in rows()} == set(PROBES)


if __name__ == "__main__":
    sentences = list(filter(None, map(broken, PROBES)))
    for sentence in sentences:
        print(sentence)
    held = len(PROBES) - len(sentences)
    print(f"{held} of {len(PROBES)} probes hold with torch {torch.__version__}")
    sys.exit(bool(sentences))
