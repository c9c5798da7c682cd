"""What ranks take on of the notebook: variables, folder, sources of cells, logging."""

import importlib
import linecache
import logging
import os
import random
import sys
import tempfile
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing import process

from course_lib.display import in_notebook
from course_lib.launching.protocol import Place, Surroundings
from course_lib.system import host


def of_this_process() -> Surroundings:
    """Return what of this process the ranks take on."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = None
    # the entries of cells have no time of change; without them no line could be shown
    sources = {
        name: entry
        for name, entry in linecache.cache.items()
        if len(entry) > 1 and entry[1] is None
    }
    virtual = sys.modules.get("course_lib.accelerators.virtual")
    devices = virtual.machine.options if virtual else None
    # a program that reads a kernel's arguments would refuse them
    argv = sys.argv[:1] if in_notebook() else sys.argv
    found = (dict(os.environ), sys.path, folder, sources, devices, _logs(), argv)
    return Surroundings(*found)


def _logs():
    """Return the level of the root logger, and how its lines are written to a cell."""
    root, written = logging.getLogger(), []
    for handler in root.handlers:
        if type(handler) is not logging.StreamHandler:
            continue  # a file or a socket, which ranks would write all at once
        # a class of the notebook's own may not be known there
        plain = type(handler.formatter) is logging.Formatter
        form = handler.formatter if plain else None
        name = "stdout" if handler.stream is sys.stdout else "stderr"
        written.append((name, handler.level, form))
    return root.level, written


def take_on(place: Place, setup: Surroundings) -> None:
    """Take on the notebook's environment, folder, paths, sources; then be this rank."""
    _set_variables(setup.environ | _variables(place))
    _log(*setup.logs)
    sys.meta_path.insert(0, _TextBars())
    tempfile.tempdir = None  # the server may have looked up another
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    loopback = "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    sys.path[:], sys.argv[:] = setup.path, setup.argv
    linecache.cache.update(setup.sources)
    if setup.folder:
        os.chdir(setup.folder)
        # "" in sys.path, to who starts afresh
        vars(process)["ORIGINAL_DIR"] = setup.folder
    from course_lib.launching import optimizers, rendezvous

    scatter_seeds()
    if host.rank_threads() > 1:
        _use_threads(host.rank_threads())
    port = None if place.environ else place.job.port
    rendezvous.use_store(port, place.job.world_size)
    rendezvous.begin_together()
    rendezvous.count_from_here()
    rendezvous.note_groups()
    rendezvous.begin_meshes_together()
    rendezvous.keep_groups()
    rendezvous.show_waits()
    optimizers.watch()


def _log(level, written):
    """Log as the notebook does: with the root logger's level, in the same form."""
    root = logging.getLogger()
    root.setLevel(level)
    for stream, least, form in written:
        handler = logging.StreamHandler(getattr(sys, stream))
        handler.setLevel(least)
        handler.setFormatter(form)
        root.addHandler(handler)


class _TextBars(Loader, MetaPathFinder):
    """Finds bars of text as `tqdm.notebook`: a rank has no page for its widgets."""

    def find_spec(self, fullname, path, target=None):
        found = fullname == "tqdm.notebook"
        return ModuleSpec(fullname, self) if found else None

    def exec_module(self, module):
        std = importlib.import_module("tqdm.std")
        vars(module).update(tqdm=std.tqdm, tqdm_notebook=std.tqdm)
        vars(module).update(trange=std.trange, tnrange=std.trange)


def _variables(place):
    """Those that torchrun sets, and that it has set for a rank of several nodes."""
    rank, size = str(place.rank), str(place.job.world_size)
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size}
    variables |= {"LOCAL_WORLD_SIZE": size, "MASTER_PORT": str(place.job.port)}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MPLBACKEND": "agg"}
    return variables | (place.environ or {})


def _use_threads(count):
    """Compute with more threads than those for which libraries were loaded."""
    import threadpoolctl
    import torch

    torch.set_num_threads(count)
    threadpoolctl.threadpool_limits(count)


def _set_variables(environ):
    """Have these variables; most are the same, and to set one copies pages."""
    before = dict(os.environ)
    for name in before.keys() - environ.keys():
        del os.environ[name]
    os.environ.update({k: v for k, v in environ.items() if before.get(k) != v})


def scatter_seeds() -> None:
    """Give this process random numbers of its own, as one of torchrun has."""
    import numpy
    import torch

    # forked ranks would share one state, which hides a forgotten seed or broadcast
    random.seed()
    numpy.random.seed(random.getrandbits(32))  # what it finds itself takes longer
    # with GPUs their generators too, which takes longer
    torch.seed() if torch.cuda.device_count() else torch.default_generator.seed()
    torch.set_num_threads(1)
