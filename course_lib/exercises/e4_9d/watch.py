"""What a backward does, in order: gradients that come, calls that go, and waits."""

import contextlib
import sys
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

_ENDS = ("wait", "get_future", "is_completed")  # ways to learn that a call has ended


class PassWatch(TorchDispatchMode):
    """Notes in a block what a rank hands to collectives, and when.

    `sent` has name and bytes of each call. `passes` has for each forward and backward
    the names of the parameters in the order of their gradients, how many calls there
    were before each and at the end, and in which ways the pass waited for one.
    `touched` is true if a tensor was used that might still be on its way.
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        # before the answer's own hooks, and before a gradient is added to `.grad`
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(self._note_gradient, name))
        self._pass: dict[str, list] | None = None
        self.clear()

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # operators are not wrapped against a compiler

    def clear(self) -> None:
        """Forget what was seen, before a step."""
        self.sent, self.passes, self.touched = [], [], False
        self._flying, self._used, self._ended = [], set(), []

    @property
    def open(self) -> int:
        """How many calls there were of which nobody asked whether they have ended."""
        return max(0, len(self.sent) - len(set(map(id, self._ended))))

    @contextlib.contextmanager
    def one_pass(self):
        """Note a forward and a backward, in a block that is watched."""
        noted: dict[str, list] = {"there": [], "calls": [], "waits": []}
        self._pass = noted
        yield
        noted["calls"].append(len(self.sent))
        self.passes.append(noted)
        self._pass = None

    def __enter__(self):
        # PyTorch 2.15: who calls work.get_future() gets this class, not torch.futures's
        owners = [(dist.Work, name) for name in _ENDS] + [(torch.Future, "wait")]
        self._methods = [(owner, name, getattr(owner, name)) for owner, name in owners]
        for owner, name, method in self._methods:
            setattr(owner, name, self._noting(name, method))
        return super().__enter__()

    def __exit__(self, *error):
        for owner, name, method in self._methods:
            setattr(owner, name, method)
        return super().__exit__(*error)

    def _noting(self, name, method):
        def noting(work, *args, **kwargs):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            self._ended.append(work)  # keeps it, so that another has another id
            own = not caller.startswith("torch.distributed")  # not all_reduce's
            if self._pass and name == "wait" and own:
                self._pass["waits"].append("wait")
            return method(work, *args, **kwargs)

        return noting

    def _note_gradient(self, name, _gradient):
        if self._pass:
            self._pass["there"].append(name)
            self._pass["calls"].append(len(self.sent))

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            self._note_call(operator.overloadpacket.__name__, args)
        elif self._flying and not operator.is_view:
            self._note_use([*args, *(kwargs or {}).values()])
        return operator(*args, **(kwargs or {}))

    def _note_call(self, name, args):
        tensors = list(_tensors(args[:1]))
        self.sent.append((name, sum(tensor.nbytes for tensor in tensors)))
        self._flying.append(tensors)  # kept, so that nothing else gets their memory
        if self._pass and any(arg is False for arg in args):  # async_op
            self._pass["waits"].append("synchronous")

    def _note_use(self, args):
        used = list(_tensors(args))
        for number, flying in enumerate(self._flying):
            if any(_overlap(one, other) for one in flying for other in used):
                self._used.add(number)
        ended = 0 if self._pass else len(set(map(id, self._ended)))
        self.touched |= len(self._used) > ended


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _overlap(one, other):
    """Return whether two contiguous tensors have memory in common."""
    first, last = sorted((one, other), key=torch.Tensor.data_ptr)
    return last.data_ptr() < first.data_ptr() + first.nbytes
