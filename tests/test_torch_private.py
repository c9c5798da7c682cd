"""Each private part of PyTorch that the package uses is there, and does what is needed.

Each probe says in its first words what another PyTorch has changed if it fails.
`python -m tests.test_torch_private` prints these; `make try-torch VERSION=2.12.0` does
so with another torch. docs/torch_private.md says what to do then.
"""

import ast
import copy
import importlib
import inspect
import io
import pickle
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import flop_counter

from course_lib.accelerators import dtensors
from course_lib.accelerators.selection import devices
from course_lib.accelerators.vgpu import VirtualTensor, memory_kinds
from course_lib.clusters.fake_ranks import fake_ranks
from course_lib.launching import optimizers
from course_lib.launching.watchdog import gathering, responder
from course_lib.scenes.interleaved import actions
from course_lib.stacks import Frame
from course_lib.tracing import flight_recorder, rank_recording
from tests.backward_errors import left_elsewhere

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "course_lib"
TABLE = ROOT / "docs/torch_private.md"
# underscored names that are Python's own, IPython's or C++'s, not PyTorch's
OTHERS = {
    *(
        "_arenas",
        "_asdict",
        "_at_fork_reinit",
        "_bootstrap",
        "_clear",
        "_current_exceptions",
        "_current_frames",
    ),
    *("_exit", "_exit_function", "_exitfunc", "_getframe", "_is_mine", "_is_zero"),
    *("_registry", "_replace", "_repr_mimebundle_", "_run_exitfuncs", "_semlock"),
    *(
        "_get_value",
        "_heap",
        "_recv_bytes",
        "_render_traceback_",
        "_send_bytes",
        "_shutdown",
    ),
    *("_actions", "_callmethod", "_finalize_join", "_target"),
    *("_ZSt13set_terminatePFvvE",),
    *("_wait_for_tstate_lock", "_worker"),
}
# and parts of PyTorch that are private by not being in its documentation
UNDOCUMENTED = {
    *("PrivateUse1", "flop_registry", "kineto_results", "linked_correlation_id"),
    *("master_listen_fd", "parallel_apply", "pg_names", "_should_skip_dynamo"),
    *("HANDLED_TYPES", "opt_ready_stream", "_extra_dispatch_keys"),
    *("trigger_wait", "default_device_backend_map", "backend_capability"),
    *("all_gather_copy_in", "split_with_sizes_copy", "chunk_cat"),
}


aten = torch.ops.aten


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


# --- virtual GPUs


def backend(devs):
    """PyTorch no longer lets Python name a backend: there is no device "vgpu"."""
    assert torch._C._get_privateuse1_backend_name() == "vgpu"
    assert torch.device("vgpu:1").index == 1 and torch.vgpu.device_count() == 3


def boxed_factories(devs):
    """PyTorch no longer hands boxed factories to a Python fallback of PrivateUse1:
    torch.ones(device="vgpu:0") cannot work."""
    assert type(torch.arange(3, device=devs[0])) is VirtualTensor


def empty_kernels(devs):
    """PyTorch no longer takes aten::empty and aten::empty_strided from Python kernels
    of PrivateUse1: torch.empty(device="vgpu:0") cannot work."""
    assert type(torch.empty(3, device=devs[0])) is VirtualTensor
    made = torch.empty_strided((2, 2), (1, 2), device=devs[0])
    assert type(made) is VirtualTensor and made.stride() == (1, 2)


def copy_from(devs):
    """torch.tensor(..., device="vgpu:0") no longer copies by aten::_copy_from."""
    assert torch.tensor([1, 2], device=devs[0]).tolist() == [1, 2]


def pinned_memory(devs):
    """Tensors of the CPU are pinned by other operators, or their storages forget that
    they are: copies with non_blocking=True hold up the host."""
    x = torch.ones(3).pin_memory()
    view = x[1:]
    del x
    assert view.is_pinned() and not torch.ones(3).is_pinned()


def current_device(devs):
    """torch.Tensor.to, torch.tensor, _device_constructors or _register_builtin is found
    in another way: "vgpu" is device 0, `with torch.device("vgpu:1")` makes tensors of
    the CPU, or torch.jit.script does not know torch.tensor."""
    with torch.vgpu.device(1):
        for x in (torch.ones(2).to("vgpu"), torch.tensor(2, device="vgpu")):
            assert x.device == devs[1]
    with torch.device("vgpu:2"):
        assert torch.tensor(2).device == torch.as_tensor([2]).device == devs[2]
    table = torch.jit._builtins._get_builtin_table()
    assert table[id(torch.tensor)] == "aten::tensor"


def replaced_classes(devs):
    """torch.Generator, torch.Event or torch.Stream cannot be derived from or replaced:
    those of virtual GPUs fail."""
    for kind in (torch.Generator, torch.Event, torch.Stream):
        own, plain = kind(devs[1]), kind("cpu") if kind is not torch.Stream else None
        assert own.device == devs[1] and isinstance(own, kind)
        assert plain is None or isinstance(plain, kind)
    generator = torch.Generator(devs[0]).manual_seed(1)
    assert torch.rand(2, generator=generator, device=devs[0]).device == devs[0]


def lazy_parameters(devs):
    """Uninitialized parameters become others in another way: nn.LazyLinear fails on
    virtual GPUs."""
    model = nn.LazyLinear(2).to(devs[1])
    assert model(torch.ones(1, 3, device=devs[1])).device == devs[1]


def nested_tensors(devs):
    """Nested and quantized tensors are made by other operators: nn.TransformerEncoder
    fails on a padded batch, and errors of PyTorch come in place of a sentence."""
    mask = torch.ones(2, 3, dtype=torch.bool, device=devs[0])
    x = torch.ones(2, 3, 4, device=devs[0])
    assert torch._nested_tensor_from_mask_left_aligned(x, mask) is False
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    for plain in (nested, quantized):
        with pytest.raises(NotImplementedError, match="hold dense tensors only"):
            plain.to(devs[0])


def wrapper_subclass(devs):
    """torch.Tensor._make_wrapper_subclass no longer makes tensors of another device:
    a virtual tensor cannot say where it is."""
    size = (2,), (1,), 0, None, torch.float32, torch.strided, devs[2]
    made = torch.Tensor._make_wrapper_subclass(VirtualTensor, *size)
    assert made.device == devs[2]


def torch_dispatch(devs):
    """PyTorch no longer brings the operators of a wrapper subclass to its
    __torch_dispatch__: nothing runs on a virtual GPU."""
    seen = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return args[0]

    size = (2,), (1,), 0, None, torch.float32, torch.strided, devs[1]
    torch.Tensor._make_wrapper_subclass(Own, *size).exp()
    assert seen == [aten.exp.default]


def one_thread(devs):
    """torch.autograd.set_multithreading_enabled(False) no longer keeps backward in the
    calling thread: backward works on vgpu:0 only."""
    x = torch.ones(2, device=devs[2], requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.device == devs[2]


def entry_of_backward(devs):
    """Backward no longer starts in torch.autograd._engine_run_backward: it is not kept
    in one thread, and fails beyond vgpu:0."""
    for start in (torch.autograd.backward, torch.autograd.grad):
        assert "_engine_run_backward(" in inspect.getsource(start)
    assert torch.autograd._engine_run_backward.__wrapped__ is not None


def guard(devs):
    """PyTorch no longer takes a device guard from Python, or asks it for something
    new: an error in a hook of backward may end the process."""
    assert hasattr(torch._C._acc, "register_python_privateuseone_device_guard")
    own = {name for name in vars(torch._C._acc.DeviceGuard) if name[0] != "_"}
    assert own == {"type_"}


def zero_tangents(devs):
    """PyTorch makes the tangent of what does not change by another operator, or takes
    no key for it: a jvp within a jvp ends the process, or gives nan at infinity."""
    zero = torch._efficientzerotensor((2,), device=devs[1])
    assert zero._is_zerotensor() and zero.elem.tolist() == [0, 0]
    infinite = torch.full((2,), float("inf"), device=devs[1])
    assert (zero * infinite).tolist() == [0, 0]
    assert torch.func.hessian(torch.sin)(infinite[0] * 0 + 1).device == devs[1]


def streams_of_gradients(devs):
    """The engine says something else where a gradient is on another device, or refuses
    it itself: our words do not appear, and may be left out."""
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid gradient: it is on another device"):
        left_elsewhere(x, devs[1]).sum().backward()


def followed(devs):
    """make_fx no longer asks HANDLED_TYPES which tensors it follows: it takes those of
    virtual GPUs for constants, and torch.func.linearize gives wrong numbers."""
    from torch.fx.experimental import proxy_tensor

    assert VirtualTensor in proxy_tensor.HANDLED_TYPES
    x = torch.ones(2, device=devs[1])
    assert torch.equal(torch.func.linearize(torch.sin, x)[1](x).cpu(), x.cpu().cos())


def storages(devs):
    """Storages are no longer made by UntypedStorage.__new__: one that is asked for on a
    virtual GPU ends the process."""
    assert issubclass(torch.UntypedStorage, torch._C.StorageBase)
    assert torch.UntypedStorage(8).nbytes() == 8
    with pytest.raises(NotImplementedError, match="without a tensor"):
        torch.UntypedStorage(8, device=devs[1])


def printing(devs):
    """torch._tensor_str prints in another way: virtual tensors do not print."""
    names = set(inspect.signature(torch._tensor_str._str_intern).parameters)
    assert {"inp", "tensor_contents"} <= names
    assert repr(torch.ones(1, device=devs[0])) == "tensor([1.], device='vgpu:0')"


def parameters(devs):
    """nn.Parameter no longer marks tensors of a subclass by `_is_param`: parameters on
    a virtual GPU are none."""
    made = nn.Parameter(torch.ones(2, device=devs[0]))
    assert type(made) is VirtualTensor and made._is_param
    assert isinstance(made, nn.Parameter)


def shallow_copies(devs):
    """Module.to no longer asks torch._has_compatible_shallow_copy_type or sets `.data`:
    it gives a module new parameters, which its optimizer does not know."""
    source = inspect.getsource(nn.Module._apply)
    assert "torch._has_compatible_shallow_copy_type(" in source
    model = nn.Linear(2, 2)
    before = model.weight
    assert model.to(devs[1]).weight is before is model.cpu().weight


def swapped(devs):
    """torch._C._swap_tensor_impl no longer exchanges two tensors in place: Module.to
    cannot keep its parameters."""
    one, two = torch.ones(1), torch.zeros(2)
    torch._C._swap_tensor_impl(one, two)
    assert (one.tolist(), two.tolist()) == ([0, 0], [1])


def data(devs):
    """torch._C.TensorBase.data is no descriptor any more: `.data` of a virtual tensor
    cannot be read or set."""
    descriptor = torch._C.TensorBase.data
    assert hasattr(descriptor, "__get__") and hasattr(descriptor, "__set__")
    x = torch.ones(2, device=devs[0], requires_grad=True)
    assert not x.data.requires_grad and x.data.device == devs[0]


def relabelled(devs):
    """A wrapper subclass can no longer be given another shape under
    _set_meta_in_tls_dispatch_include: resize_ and out= leave the old one."""
    x = torch.ones(2, device=devs[0])
    x.resize_(3, 4)
    assert x.shape == x.elem.shape == (3, 4)


def lazy_bits(devs):
    """torch._C._SetExcludeDispatchKeyGuard is gone or does something else: complex
    numbers are conjugated no more inside of operators, pinv is wrong."""
    x = torch.tensor([[1 + 2j, 3], [4j, 5]])
    want, got = torch.linalg.pinv(x), torch.linalg.pinv(x.to(devs[0])).cpu()
    assert torch.equal(want, got)


def autocasts(devs):
    """Kernels of Python at AutocastPrivateUse1, or the end of the cache, are gone:
    autocast on a virtual GPU computes in float32, or keeps weights for ever."""
    x = torch.ones(2, 2, device=devs[0], requires_grad=True)
    before = torch.vgpu.memory_allocated(devs[0])
    with torch.autocast("vgpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    assert torch.vgpu.memory_allocated(devs[0]) == before


def composites(devs):
    """An operator that is a sequence of others no longer decomposes from Python:
    inference mode does not work on a virtual GPU."""
    assert aten.linear.default._can_decompose() or aten.matmul.default._can_decompose()
    with torch.inference_mode():
        x = torch.ones(2, 2, device=devs[0])
        assert torch.matmul(x, x).tolist() == [[2, 2], [2, 2]]


def scalars(devs):
    """item() no longer reads by aten::_local_scalar_dense: the host does not wait."""
    from course_lib.accelerators.virtual import machine

    x = torch.ones(10_000_000, device=devs[0]).sum()
    assert x.item() == 1e7 and machine.clock.host >= machine.clock.free[0]


def tags(devs):
    """Operators carry other tags or schemas: what waits for the device, what changes
    a shape and what is written to is not known."""
    assert torch.Tag.dynamic_output_shape in aten.nonzero.default.tags
    assert torch.Tag.data_dependent_output in aten._local_scalar_dense.default.tags
    assert torch.Tag.inplace_view in aten.t_.default.tags
    out = aten.add.out._schema.arguments[-1]
    assert out.kwarg_only and out.alias_info.is_write


def flops(devs):
    """torch.utils.flop_counter.flop_registry counts in another way: the times of
    products and convolutions are wrong."""
    known = flop_counter.flop_registry
    assert aten.mm in known and aten.convolution in known
    assert known[aten.mm](torch.ones(2, 3), torch.ones(3, 4), out_val=None) == 48


def one_kernel(devs):
    """F.scaled_dot_product_attention no longer asks the key AutogradPrivateUse1, or the
    overrideable kernel has other arguments: attention keeps its matrix of scores."""
    query = torch.rand(1, 1, 64, 8, device=devs[0]).requires_grad_()
    out = nn.functional.scaled_dot_product_attention(query, query, query)
    assert "Overrideable" in out.grad_fn.name()
    out.sum().backward()
    kernel = aten._scaled_dot_product_fused_attention_overrideable
    names = [argument.name for argument in kernel.default._schema.arguments]
    assert names[3:6] == ["attn_bias", "dropout_p", "is_causal"]
    names = [argument.name for argument in kernel_backward()._schema.arguments]
    assert names[12:15] == ["dropout_p", "is_causal", "philox_seed"]


def kernel_backward():
    return aten._scaled_dot_product_fused_attention_overrideable_backward.default


def several_at_once(devs):
    """Optimizers no longer ask _foreach_supported_types: on virtual GPUs they go
    through their parameters one by one, unlike on CUDA."""
    from torch.optim import optimizer
    from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices

    assert VirtualTensor in optimizer._foreach_supported_types
    assert "vgpu" in _get_foreach_kernels_supported_devices()
    x = nn.Parameter(torch.ones(2, device=devs[0]))
    assert optimizer._default_to_fused_or_foreach([x], False)[1]


def step_hooks(devs):
    """Optimizers no longer call the hooks for all of them: a trace does not know their
    steps, and their state counts as activations."""
    from torch.optim import optimizer

    hooks = (
        optimizer._global_optimizer_pre_hooks,
        optimizer._global_optimizer_post_hooks,
    )
    homes = {hook.__module__ for own in hooks for hook in own.values()}
    assert any(home.startswith("course_lib.accelerators.vgpu") for home in homes)


def files(devs):
    """torch.serialization.register_package or _get_restore_location no longer decides
    where a storage goes: torch.load(map_location=...) does not work."""
    file = io.BytesIO()
    torch.save({"x": torch.ones(2)}, file)
    file.seek(0)
    found = torch.load(file, map_location="vgpu:1")["x"]
    assert found.device == devs[1] and found.tolist() == [1, 1]
    file = io.BytesIO()
    torch.save(torch.ones(2, device=devs[1]), file)
    file.seek(0)
    found = torch.load(file, map_location=lambda storage, location: storage)
    assert found.device.type == "cpu"


def pickles(devs):
    """torch._utils._rebuild_device_tensor_from_cpu_tensor or _rebuild_parameter has
    changed: virtual tensors cannot be pickled."""
    model = nn.Linear(2, 1).to(devs[2])
    back = pickle.loads(pickle.dumps(model))
    assert back.weight.device == devs[2] and isinstance(back.weight, nn.Parameter)


def copies(devs):
    """copy.deepcopy takes another way through a tensor: the copy of a virtual one is
    not on its device."""
    assert copy.deepcopy(torch.ones(2, device=devs[1])).device == devs[1]


def comm(devs):
    """nn.DataParallel no longer calls the functions of torch.nn.parallel.comm by their
    names: its copies fail on virtual GPUs."""
    from torch.nn.parallel import _functions

    calls = ("broadcast_coalesced", "reduce_add_coalesced", "scatter", "gather")
    source = inspect.getsource(_functions)
    assert all(f"comm.{name}(" in source for name in calls)
    model = nn.DataParallel(nn.Linear(2, 1).to(devs[0]), device_ids=devs)
    assert model(torch.ones(3, 2)).device == devs[0]


def accelerator(devs):
    """torch.accelerator no longer answers for nn.DataParallel: it does not find the
    virtual GPUs, their current device or their stream."""
    assert torch._utils._get_available_device_type() == "vgpu"
    assert torch.accelerator.device_count() == 3
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1


def steps_of_optimizers(devs):
    """Optimizers ask more of a stream than VirtualStream answers: Adam, AdamW and
    RMSprop fail on virtual GPUs."""
    x = nn.Parameter(torch.ones(2, device=devs[0]))
    x.grad = torch.ones_like(x)
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        kind([x]).step()


def bundles(devs):
    """The helpers of torch._utils that pack tensors into one have changed: broadcasts
    of nn.DataParallel fail."""
    from torch import _utils

    tensors = [torch.ones(2), torch.zeros(3)]
    flat = _utils._flatten_dense_tensors(tensors)
    assert [t.shape for t in _utils._unflatten_dense_tensors(flat, tensors)] == [
        (2,),
        (3,),
    ]
    assert [len(own) for own in _utils._take_tensors(tensors, 8)] == [1, 1]


def crossings(devs):
    """`.to`, `.conj` and `.neg` of complex numbers no longer call aten::_to_copy,
    aten::_conj and aten::_neg_view: copies between devices are not seen."""
    assert all(hasattr(aten, name) for name in ("_to_copy", "_conj", "_neg_view"))
    x = torch.tensor([1 + 2j], device=devs[0])
    assert x.to(devs[1]).conj().imag.tolist() == [-2]


def names_of_operators(devs):
    """Operators have other names, or say in another way what they write: copies from
    the CPU are refused, and results of a new shape keep the old one."""
    names = ["_index_put_impl_", "_unsafe_index", "_ctc_loss", "_resize_output_"]
    names += ["_pack_padded_sequence", "_to_copy", "_foreach_add_", "_fused_adamw_"]
    names += ["_amp_foreach_non_finite_check_and_unscale_", "_native_batch_norm_legit"]
    assert all(hasattr(aten, name) for name in names)
    assert [a.name for a in aten.add_.Tensor._schema.arguments if a.alias_info] == [
        "self"
    ]


def storage_keys(devs):
    """UntypedStorage._cdata no longer tells one storage from another: tensors that
    share memory count twice."""
    one, other = torch.ones(4), torch.ones(4)
    keys = [t.untyped_storage()._cdata for t in (one, one[2:], other)]
    assert keys[0] == keys[1] != keys[2]


def resized_storages(devs):
    """A storage is resized in another way, or forgets what it is on: what FSDP frees
    between forward and backward still counts."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param

    held = torch.vgpu.memory_allocated
    tensor = torch.ones(4, device=devs[1])
    view, before = tensor[1:], held(1)
    _fsdp_param.free_storage(tensor)
    assert before - held(1) == 16 and view.freed
    _fsdp_param.alloc_storage(tensor)
    assert held(1) == before and not view.freed


def sharded_kinds(devs):
    """FSDP2 has other operators: what it gathers and reduces counts as activations."""
    from torch.distributed.fsdp import fully_shard

    packing = []
    with fake_ranks(2), pytest.MonkeyPatch.context() as patched:
        mesh = dist.device_mesh.init_device_mesh("vgpu", (2,))
        model = fully_shard(nn.Linear(2, 4).to(devs[0]), mesh=mesh)
        run = VirtualTensor.run

        def noted(func, args, kwargs):
            packing.append(memory_kinds.kind_of(func))
            return run(func, args, kwargs)

        patched.setattr(VirtualTensor, "run", staticmethod(noted))
        model(torch.ones(3, 2, device=devs[0])).sum().backward()
    assert set(packing) == {None, "parameters", "gradients"}


# --- ranks and traces


def dealt_shards(devs):
    """Placements split a tensor in another way: it is not known which part of it a rank
    has brought back."""
    from torch.distributed.tensor import Shard, distribute_tensor

    with fake_ranks(4, rank=3):
        mesh = dist.device_mesh.init_device_mesh("cpu", (4,))
        dealt = distribute_tensor(torch.arange(9), mesh, [Shard(0)], src_data_rank=None)
        part = dtensors.part_of(dealt)
    assert part.spans == ((),) and len(part.local) == 0 and part.offsets == (9,)


@contextmanager
def alone():
    """The gloo group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def compiler_rules(devs):
    """torch._dynamo.trace_rules.clear_lru_cache is gone: the fork server does not
    start."""
    importlib.import_module("torch._dynamo.trace_rules").clear_lru_cache()


def rendezvous(devs):
    """torch.distributed.rendezvous no longer makes its store by _create_c10d_store: the
    second init_process_group of a rank does not meet the other ranks."""
    module = importlib.import_module("torch.distributed.rendezvous")
    for handler in (module._tcp_rendezvous_handler, module._env_rendezvous_handler):
        assert "_create_c10d_store(" in inspect.getsource(handler)
    given = list(inspect.signature(module._create_c10d_store).parameters)
    assert given[:5] == ["hostname", "port", "rank", "world_size", "timeout"]


def store(devs):
    """TCPStore takes no socket that listens already: launches have no store."""
    assert "master_listen_fd" in dist.TCPStore.__init__.__doc__


def store_of_nodes(devs):
    """torchrun makes the store where nodes meet elsewhere, or its main takes no command
    line: launches on several nodes do not start, or somebody else takes their port."""
    name = "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend"
    module = importlib.import_module(name)
    assert "store = TCPStore(" in inspect.getsource(module._create_tcp_store)
    run = importlib.import_module("torch.distributed.run")
    assert list(inspect.signature(run.main).parameters) == ["args"]


def groups(devs):
    """torch.distributed keeps its groups elsewhere: a rank that is asked where it is
    does not answer."""
    with alone():
        world = dist.group.WORLD  # "0", unless one before could not be made
        assert responder.process_groups() == {world: (world.group_name, [0])}


def gloo_for_devices(devs):
    """Groups find their backend by other tables, or a functional collective gives other
    tensors: ranks cannot send what is on virtual GPUs."""
    with alone():
        x = torch.ones(2, device=devs[1])
        dist.all_reduce(x)
        assert "vgpu:gloo" in str(dist.get_backend_config())
        mesh = dist.device_mesh.init_device_mesh("vgpu", (1,))
        from torch.distributed.tensor import DTensor, Partial

        part = DTensor.from_local(x, mesh, [Partial()])
        assert type(part.full_tensor()) is VirtualTensor


def random_shards(devs):
    """DTensor asks for random numbers in another way: they are refused without a
    sentence, or drawn."""
    with alone():
        mesh = dist.device_mesh.init_device_mesh("vgpu", (1,))
        from torch.distributed.tensor import randn

        with pytest.raises(NotImplementedError, match="shard by shard"):
            randn(4, device_mesh=mesh)


def kinds_of_work(devs):
    """Work._get_op_type has other numbers: a stall names the wrong collective."""
    with alone():
        works = [
            dist.all_reduce(torch.ones(1), async_op=True),
            dist.broadcast(torch.ones(1), 0, async_op=True),
            dist.barrier(async_op=True),
        ]
        kinds = [responder._operation(work) for work in works]
    assert kinds == ["all_reduce", "broadcast", "barrier"]


def gathering_frames(devs):
    """FSDP, DTensor or DCP gather shards in functions of other names or files: a rank
    that waits there is not said to be in them."""
    from torch.distributed.checkpoint import state_dict, state_dict_saver
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group, _fsdp_state
    from torch.distributed.tensor import DTensor, _dispatch

    state, group = _fsdp_state.FSDPState, _fsdp_param_group.FSDPParamGroup
    functions = [state._pre_forward, state._pre_backward, group.post_backward]
    functions += [state._root_post_backward_final_callback, DTensor.full_tensor]
    functions += [state_dict.get_model_state_dict, state_dict_saver.save]
    functions += [_dispatch.OpDispatcher.redistribute_local_args]
    for function in map(inspect.unwrap, functions):
        code = function.__code__
        frame = Frame(code.co_filename, 1, code.co_name)
        assert gathering.find([frame]), code.co_name


def replaced_parameters(devs):
    """fully_shard no longer marks modules, or parameters that it replaces, or keeps
    what it gathers elsewhere: an optimizer made too early does not warn."""
    from torch.distributed.fsdp import fully_shard

    with fake_ranks(2):
        model = nn.Linear(2, 2)
        early = torch.optim.SGD(model.parameters())
        fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
        assert model._is_fsdp_managed_module and not optimizers.stale(
            torch.optim.SGD(model.parameters())
        )
        if torch.__version__ >= (2, 12):  # before, it gives no marks
            assert "fully_shard has put others" in optimizers.stale(early)
        assert nn.Module._call_impl.__name__ == "_call_impl"
        model(torch.ones(1, 2))
        late = torch.optim.SGD(model.parameters())
        model.reshard()
        assert "were gathered for a forward" in optimizers.stale(late)


def assigned_buckets(devs):
    """DDP's buckets are made elsewhere: the figure of buckets shows no gradients."""
    sizes = [torch.empty(n, dtype=torch.uint8, device="meta") for n in (5, 3, 9, 1)]
    assign = dist._compute_bucket_assignment_by_size
    assert assign(sizes, [1, 10]) == ([[0], [1, 2], [3]], [1, 10, 10])


def recorded_calls(devs):
    """The flight recorder writes in another way: stalls are not explained, and the
    collectives of a trace have no bytes."""
    with alone():
        dist.all_reduce(torch.ones(3))
        calls = flight_recorder.newest(
            flight_recorder.read_calls(flight_recorder.entries())
        )
        # groups of other tests may have had other names
        calls = [call for call in calls if call.group == dist.group.WORLD.group_name]
    assert [str(call) for call in calls] == ["all_reduce of f32[3]"]
    assert (calls[0].number, calls[0].bytes, calls[0].backend) == (1, 12, "gloo")


def fake_group(devs):
    """Fake ranks have other ways: one of 1,024 cannot count its collectives."""
    with fake_ranks(1024) as calls:
        model = DistributedDataParallel(nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        functional = torch.ops._c10d_functional
        name = dist.group.WORLD.group_name
        part = functional.all_gather_into_tensor(torch.ones(2), 1024, name)
        functional.wait_tensor(part)
    assert [call[:2] for call in calls[-2:]] == [
        ("all_reduce", 24),
        ("all_gather", 8192),
    ]
    assert calls[-1].ranks == tuple(range(1024)) and not dist.is_initialized()


def messages(devs):
    """Sends and receives go another way than ProcessGroup's: a meter misses them."""
    assert {"send", "recv", "recv_anysource"} <= vars(dist.ProcessGroup).keys()
    assert callable(dist.Work._source_rank) and "wait" in vars(dist.Work)


def profiled_operators(devs):
    """The profiler's events have other fields or names: a trace of ranks is empty."""
    with rank_recording.record() as recording, alone():
        torch.ones(64, 64) @ torch.ones(64, 64)
        dist.all_reduce(torch.ones(3))
    marks = {(mark.kind, mark.name, mark.bytes) for mark in recording.events}
    assert marks >= {("compute", "matmul", 0), ("communicate", "all_reduce", 12)}


def optimizer_steps(devs):
    """The profiler names the step of an optimizer in another way: a trace shows its
    operators one by one."""
    weight = nn.Parameter(torch.ones(512, 512))
    optimizer = torch.optim.SGD([weight], 0.1)
    weight.grad = torch.ones_like(weight)
    with rank_recording.record() as recording:
        optimizer.step()
    assert "optimizer" in {mark.name for mark in recording.events}


def cuda_memory(devs):
    """The memory history of CUDA's allocator is asked for in another way: traces of
    real GPUs fail."""
    memory = torch.cuda.memory
    given = inspect.signature(memory._record_memory_history).parameters
    assert {"enabled", "context"} <= set(given)
    assert callable(memory._snapshot)


# --- scenes


def listed_schedules(devs):
    """torch.distributed.pipelining lists its schedules elsewhere or in other words:
    the scene of pipelines cannot interleave."""
    assert actions("GPipe", 2, 1) == [
        [(stage, "forward", 0), (stage, "backward", 0)] for stage in (0, 1)
    ]
    first, _ = actions("Interleaved1F1B", 2, 2, chunks=2)
    assert first[:4] == [(stage, "forward", i) for stage in (0, 2) for i in (0, 1)]
    assert first[4:] == [(stage, "backward", i) for stage in (2, 0) for i in (0, 1)]


# --- studies and exercises


def norms(devs):
    """BatchNorm has another base class: it is not refused where models are stacked."""
    base = torch.nn.modules.batchnorm._BatchNorm
    assert all(isinstance(norm(1), base) for norm in (nn.BatchNorm1d, nn.BatchNorm2d))


def unwrapped_modes(devs):
    """A TorchDispatchMode is no longer asked whether to wrap it: 5.1 is slower."""
    from torch.utils._python_dispatch import TorchDispatchMode

    assert callable(TorchDispatchMode._should_skip_dynamo)


def modes(devs):
    """A TorchDispatchMode no longer sees operators with their schema: exercise 5.1 does
    not see who writes to shared memory."""
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


PROBES = {
    probe.__name__: probe
    for probe in (
        *(backend, boxed_factories, empty_kernels, copy_from, wrapper_subclass),
        *(torch_dispatch, one_thread, entry_of_backward, guard, printing, parameters),
        *(shallow_copies, swapped, data, relabelled, lazy_bits, composites, scalars),
        autocasts,
        *(
            one_kernel,
            tags,
            flops,
            several_at_once,
            step_hooks,
            files,
            pickles,
            copies,
            comm,
        ),
        *(zero_tangents, streams_of_gradients, followed, storages),
        *(
            accelerator,
            steps_of_optimizers,
            bundles,
            crossings,
            names_of_operators,
            storage_keys,
            resized_storages,
            sharded_kinds,
            dealt_shards,
        ),
        *(compiler_rules, rendezvous, store, store_of_nodes),
        *(gloo_for_devices, random_shards, groups, kinds_of_work, recorded_calls),
        *(gathering_frames, replaced_parameters),
        assigned_buckets,
        *(
            fake_group,
            messages,
            profiled_operators,
            optimizer_steps,
            cuda_memory,
            norms,
            modes,
        ),
        unwrapped_modes,
        listed_schedules,
        *(pinned_memory, current_device, replaced_classes, lazy_parameters),
        nested_tensors,
    )
}


def broken(name, devs):
    """In one line what does not hold, and why; "" if all is well."""
    try:
        PROBES[name](devs)
    except BaseException as error:
        sentence = f"{PROBES[name].__doc__} ({type(error).__name__}: {error})"
        return " ".join(sentence.split())
    return ""


@pytest.mark.parametrize("name", PROBES)
def test_pytorch_still_keeps_what_the_package_leans_on(virtual, name):
    if sentence := broken(name, virtual(3)):
        pytest.fail(sentence, pytrace=False)


def test_a_probe_that_fails_says_in_one_line_what_broke(devs, monkeypatch):
    monkeypatch.delattr(torch._C, "_swap_tensor_impl")
    sentence = broken("swapped", devs)
    assert sentence.startswith("torch._C._swap_tensor_impl no longer exchanges")
    assert "AttributeError" in sentence and "\n" not in sentence


def test_the_table_names_what_the_package_uses():
    used = {}
    for path in PACKAGE.rglob("*.py"):
        if names := names_used(path):
            used[path.relative_to(PACKAGE).as_posix()] = sorted(names)
    table = {}
    for module, parts, *_ in rows():
        table.setdefault(module.strip("`"), set()).update(named(parts))
    assert {module: sorted(names) for module, names in table.items()} == used


def test_each_row_of_the_table_has_probes_and_each_probe_its_row():
    probes = [re.findall(r"`(\w+)`", row[4]) for row in rows()]
    assert all(probes)
    assert {name for names in probes for name in names} == set(PROBES)


if __name__ == "__main__":
    devs = devices(3, quiet=True)
    sentences = {name: broken(name, devs) for name in PROBES}
    for name in filter(sentences.get, sentences):
        print(f"{name}: {sentences[name]}")
    held = list(sentences.values()).count("")
    print(f"{held} of {len(PROBES)} probes hold with torch {torch.__version__}")
    sys.exit(held < len(PROBES))
