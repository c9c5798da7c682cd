"""Where the ranks of a launch find each other: a store that outlives them all."""

import functools
import importlib
import itertools
import os
import sys
from datetime import timedelta

import torch.distributed
from torch.distributed import PrefixStore, Store, TCPStore, Work

from course_lib.launching.watchdog import responder
from course_lib.stacks import Frame, is_learners
from course_lib.text import short
from course_lib.tracing.messages import rank_log

_BARRIER = "TORCH_DIST_INIT_BARRIER"
_C10D = os.path.dirname(torch.distributed.__file__)
_SOON = timedelta(seconds=60)  # a store that gives up by then says so itself
_KEPT = 16  # process groups: each holds a thread and a connection per rank


def serve_store(port: int, listener: int):
    """Serve the store where ranks find each other, on a socket that listens already."""
    # no port race: the socket was bound before any rank was started
    return TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener,
    )


def use_store(port: int | None, ranks: int) -> None:
    """Let each `init_process_group` here meet the other ranks in the launch's store.

    Without a `port` that is the store of torchrun. From the first group of all `ranks`
    on this rank can be asked where it is.
    """
    # by name, because torch.distributed.rendezvous is a function of that module
    module = importlib.import_module("torch.distributed.rendezvous")
    usual = module._create_c10d_store
    turns = {}

    def create(hostname, asked_port, rank, world_size, timeout, *rest, **options):
        if world_size == ranks:  # else others take part, of which we know nothing
            responder.start(timeout.total_seconds())
        # a prefix per turn: a second init in one process would read the first's keys
        turn = next(turns.setdefault(asked_port, itertools.count()))
        if port is None:
            place = (hostname, asked_port, rank, world_size, timeout)
            store = usual(*place, *rest, **options)
        else:
            store = TCPStore("127.0.0.1", port, is_master=False, timeout=timeout)
        return PrefixStore(f"{asked_port}/{turn}", store)

    module._create_c10d_store = create


def keep_groups() -> None:
    """Let a destroyed process group live on until this process ends.

    In torch 2.13 the last reference to a gloo group joins the group's thread while it
    holds the interpreter lock, and that thread may need the lock to drop a finished
    all-reduce: one DDP training in ten hung when its function returned. The question is
    open as pytorch#56297.
    """
    from torch.distributed import distributed_c10d as c10d

    destroy = c10d.destroy_process_group
    groups = []

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        rank_log.look()  # what its connections carried is known no more when it is gone
        groups.extend(responder.process_groups())
        del groups[:-_KEPT]  # the oldest have long been idle
        destroy(group)

    _replace(destroy_process_group)


def begin_together() -> None:
    """Let `init_process_group` return when it is done on all ranks.

    By itself it returns on one rank while another still connects, and if the function
    ends there that rank closes the connections: seen on a busy machine in one launch of
    twenty whose ranks do nothing else. PyTorch has a barrier for it, usually left out.
    """
    from torch.distributed import distributed_c10d as c10d

    init = c10d.init_process_group

    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        # a store of the learner's own may be one that nobody shares
        if len(args) > 5 or "store" in kwargs:
            return init(*args, **kwargs)
        return _together(init, *args, **kwargs)

    _replace(init_process_group)


def begin_meshes_together() -> None:
    """Let a mesh be there when its groups are done on all ranks.

    All ranks make all groups of a mesh, and a function that only looks at one ends at
    once. Comes last: the `new_group` of meshes is another one from here on.
    """
    from torch.distributed import device_mesh

    device_mesh.new_group = functools.partial(_together, device_mesh.new_group)


def _together(make, *args, **kwargs):
    """Make a group with PyTorch's barrier at the end."""
    if _BARRIER in os.environ:
        return make(*args, **kwargs)
    os.environ[_BARRIER] = "1"
    try:
        return make(*args, **kwargs)
    finally:
        del os.environ[_BARRIER]


def count_from_here() -> None:
    """Let what a new process group sends to be set up not count as sent by the rank."""
    from torch.distributed import distributed_c10d as c10d

    for make in (c10d.init_process_group, c10d.new_group):
        _replace(_counted(make))


def note_groups() -> None:
    """Let each `new_group` be noted that all ranks must call alike."""
    from torch.distributed import distributed_c10d as c10d

    make = c10d.new_group

    @functools.wraps(make)
    def _make(ranks=None, *args, **kwargs):
        # only its members call such a group
        if not kwargs.get("use_local_synchronization"):
            size = torch.distributed.get_world_size()
            responder.note_group(list(range(size) if ranks is None else sorted(ranks)))
        return make(ranks, *args, **kwargs)

    _replace(_make)


def _counted(make):
    # with an underscore: in a stack, `make` is what the learner called
    @functools.wraps(make)
    def _make(*args, **kwargs):
        group = make(*args, **kwargs)
        rank_log.look(new=True)
        return group

    return _make


def show_waits() -> None:
    """Let the stack of a rank that waits tell it from one that works.

    `work.wait()` gets a frame; a wait with a time limit, which ends by itself, one of
    `limited`.
    """
    from torch.distributed import distributed_c10d as c10d

    wait_, barrier = Work.wait, c10d.monitored_barrier

    @functools.wraps(wait_)
    def wait(self, *args, **kwargs):
        if args or kwargs:
            return limited(wait_, self, *args, **kwargs)
        with responder.awaits(self):
            return wait_(self)

    @functools.wraps(barrier)
    def monitored_barrier(group=None, timeout=None, **kwargs):
        if timeout:
            return limited(barrier, group, timeout, **kwargs)
        return barrier(group, **kwargs)

    Work.wait = wait
    Store.get, Store.wait = _shown(Store.get), _shown(Store.wait)
    _replace(monitored_barrier)


def _shown(call):
    """`call` of a store; where the learner waits for a key, it is known for which."""

    @functools.wraps(call)
    def from_store(self, keys, *limit):
        caller = sys._getframe(1).f_code.co_filename
        if caller.startswith(_C10D):
            return call(self, keys, *limit)
        # a library's wait may end by itself
        if limit or self.timeout <= _SOON or not is_learners(Frame(caller, 0, "")):
            return limited(call, self, keys, *limit)
        responder.start()
        with responder.awaits(f"store.{call.__name__}({short(keys)})"):
            return call(self, keys)

    return from_store


def _replace(function):
    """Put a function in the place of PyTorch's of the same name.

    Some of its modules have imported that one by name: `device_mesh` makes groups.
    """
    name = function.__name__
    replaced = getattr(sys.modules["torch.distributed.distributed_c10d"], name)
    for module, held in list(sys.modules.items()):
        of_torch = module.startswith("torch.distributed")
        if of_torch and vars(held).get(name) is replaced:
            setattr(held, name, function)


def limited(call, *args, **kwargs):
    """Call; in a stack this frame says that the call ends by itself."""
    return call(*args, **kwargs)
