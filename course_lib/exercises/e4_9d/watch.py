"""What a backward does, in order: gradients that come, calls that go, and waits."""

import contextlib
import threading
from functools import partial

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercises.compare import replaced
from course_lib.exercises.waits import noted_waits, unasked


class PassWatch(TorchDispatchMode):
    """Notes in a block what a rank hands to collectives, and when.

    `sent` has name and bytes of each call. `passes` has for each forward and backward
    the names of the parameters in the order of their gradients, how many calls there
    were before each and at the end, and in which ways the pass waited for one.
    `touched` is true if a tensor was used that might still be on its way; what waits
    for its future, as `then` calls it, may use it.
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
        self._flying, self._used, self._asked = [], set(), []
        self._follows = False

    @property
    def open(self) -> int:
        """How many calls there were of which nobody asked whether they have ended."""
        return unasked(len(self.sent), self._asked)

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
        self._thread = threading.get_ident()
        self._patches = contextlib.ExitStack()
        self._asked = self._patches.enter_context(noted_waits(self._note_wait))
        self._patches.enter_context(replaced(torch.Future, "then", self._after))
        return super().__enter__()

    def __exit__(self, *error):
        self._patches.close()
        return super().__exit__(*error)

    def _after(self, then):
        """What follows a future has waited for it, also where it runs at once."""

        def noting_then(future, callback):
            def following(done):
                if threading.get_ident() != self._thread:
                    return callback(done)
                before, self._follows = self._follows, True
                try:
                    return callback(done)
                finally:
                    self._follows = before

            return then(future, following)

        return noting_then

    def _note_wait(self, name, of_torch):
        # not that of all_reduce, which waits by itself unless it is asynchronous
        if self._pass and name == "wait" and not of_torch:
            self._pass["waits"].append("wait")

    def _note_gradient(self, name, _gradient):
        if self._pass:
            self._pass["there"].append(name)
            self._pass["calls"].append(len(self.sent))

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            self._note_call(operator.overloadpacket.__name__, args)
        elif self._flying and not self._follows and not operator.is_view:
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
        asked = [] if self._pass else self._asked
        self.touched |= unasked(len(self._used), asked) > 0


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
