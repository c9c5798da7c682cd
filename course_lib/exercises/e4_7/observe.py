"""Exercise 4.7, in a rank: an evaluation in the middle of a training."""

import operator

import torch
import torch.distributed as dist
from torch import ops
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset

from course_lib.exercises.compare import gap, gradients_of, group, state_of
from course_lib.exercises.counted_work import Work
from course_lib.exercises.values import plain
from course_lib.tracing import flight_recorder

# with the running mean and variance and the training flag as arguments 3 to 5
_NORMS = (
    ops.aten.native_batch_norm,
    ops.aten._native_batch_norm_legit,
    ops.aten.cudnn_batch_norm,
    ops.aten.miopen_batch_norm,
)
_DROPOUTS = (ops.aten.bernoulli_, ops.aten.bernoulli, ops.aten.native_dropout)


class _SharedEvaluation(Work):
    """Notes how samples pass: as in training, with a graph, by which statistics.

    `sent` is how many bytes this rank hands to collectives meanwhile. Unlike `Traffic`
    it asks only twice, for an answer may take one sample at a time.
    """

    def __init__(self, model: torch.nn.Module, statistics: list):
        super().__init__(model)
        self.statistics = statistics  # running mean and variance of rank 0
        self.training = self.graph = self.own_statistics = False
        self.sent = -_bytes()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.sent += _bytes()

    def note_pass(self, packet, args):
        passes = len(self.passes)
        super().note_pass(packet, args)
        if len(self.passes) > passes and torch.is_grad_enabled():
            tensors = [args[place] for place in self._places[packet]]
            self.graph |= any(one.requires_grad for one in tensors)
        if packet in _DROPOUTS:
            self.training = True
        if packet in _NORMS and len(args[0]):
            self.training |= bool(args[5])
            self.own_statistics |= not all(
                torch.allclose(found.to(right), right, rtol=1e-3)
                for found, right in zip(args[3:5], self.statistics)
            )


def _bytes():
    calls = flight_recorder.read_calls(flight_recorder.entries())
    return sum(call.bytes for call in calls)


def observe(rank, world_size, answer, given):
    """Return what `answer` gives on this rank, what it costs, what it leaves behind."""
    with group(rank, world_size) as device:
        module = given["model"].to(device)
        state, model = state_of(module), DDP(module)
        images, labels = (part.to(device) for part in given["batch"])
        cross_entropy(model(images), labels).backward()
        _drift(module, state)
        norm = next(m for m in module.modules() if hasattr(m, "running_mean"))
        statistics = [norm.running_mean.clone(), norm.running_var.clone()]
        for one in statistics:
            dist.broadcast(one, src=0)
        before, drawn = _kept(module), 1_000_003 + rank
        torch.manual_seed(drawn)
        with _SharedEvaluation(module, statistics) as work:
            returned = answer(model, TensorDataset(*given["data"]))
        return {
            "returned": plain(returned),
            "passed": sum(work.passes),
            "training": work.training,
            "graph": work.graph,
            "own statistics": work.own_statistics,
            "bytes": work.sent,
            "left": _changes(before, model, state),
            "seeded": torch.initial_seed() != drawn,
        }


def _drift(module, state):
    """Put rank 0's state back, and other running statistics on all others."""
    module.load_state_dict(state)
    for buffer in module.buffers():
        buffer += dist.get_rank()


def _kept(module):
    """What must not change: weights, gradients, statistics, and which tensors."""
    return state_of(module), gradients_of(module), list(module.parameters())


def _changes(before, model, state):
    """What an evaluation left otherwise than it was; 0 and False are as before."""
    (weights, gradients, parameters), module = before, model.module
    after, buffers = state_of(module), [name for name, _ in module.named_buffers()]
    same = len(parameters) == len([*module.parameters()])
    kept = same and all(map(operator.is_, module.parameters(), parameters))
    trainable = kept and all(one.requires_grad for one in parameters)
    own, rank_0 = (
        [torch.equal(after[name], one[name]) for name in buffers if name in after]
        for one in (weights, state)
    )
    return {
        "eval mode": not all(one.training for one in model.modules()),
        "frozen": not (trainable and torch.is_grad_enabled()),
        "weights": gap(
            {name: one for name, one in weights.items() if name not in buffers},
            {name: one for name, one in after.items() if name not in buffers},
        ),
        "gradients": gap(gradients, gradients_of(module)),
        "statistics": not (own and all(map(operator.or_, own, rank_0))),
    }
