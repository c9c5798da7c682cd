"""A course on multi-GPU training, in notebooks.

Launch real ranks from a cell, see what they did, check it.
"""

import contextlib
import functools
import importlib
import sys

# what such a name is called now, or where it is
_RENAMED = {
    "plot_scaling": "plot_curves",
    "plot_sending": "plot_curves",
    "plot_throughput": "plot_curves",
    "plot_steps": "plot_curves",
    "plot_pareto": "plot_curves",
    "plot_spread": "plot_bars",
    "plot_staleness": "plot_bars",
    "plot_rates": "plot_bars",
    "plot_updates": "plot_timeline",
    "plot_digits": "plot_images",
    "happens_before": "course_lib.tracing.events.happens_before",
    "Results": "course_lib.launching.results.Results",
    "NotYet": "course_lib.exercises.checking.NotYet",
    "NotStarted": "course_lib.exercises.checking.NotStarted",
    "LaunchTimeout": "course_lib.errors.LaunchTimeout",
    "LaunchInterrupted": "course_lib.errors.LaunchInterrupted",
}


@functools.cache
def _homes():
    """The public names in teaching order, each with the module that holds it.

    Each is imported at its first use, so that `import course_lib` is quick and the
    doctor runs without torch. Editors read the same file.
    """
    with open(f"{__file__}i", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from .")]
    return {name: home[1:] for _, home, _, name, *_ in lines}


def __getattr__(name):
    if name == "__all__":
        return list(_homes())
    if name in _RENAMED:
        from course_lib.errors import RenamedError

        raise RenamedError(f"{name} is now {_RENAMED[name]}")
    if name not in _homes():
        raise AttributeError(f"module 'course_lib' has no attribute {name!r}")
    from course_lib.system import gpus, torch_versions

    with torch_versions.explained():
        home = _homes()[name]
        if home.startswith(("launching.", "exercises.", "studies.")):
            _client()  # they start ranks
        value = getattr(importlib.import_module(f"course_lib.{home}"), name)
        if torch := sys.modules.get("torch"):
            gpus.hide_if_outdated(torch.version.cuda)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_homes()})


def _client():
    """Return the client of the fork server, told what checks to import ahead."""
    from course_lib.exercises import folders
    from course_lib.launching import client

    client.set_preload(folders.observing())
    return client


def _warm_up_in_notebook():
    """Start the fork server early, so that the first launch is quick too.

    The notebook's own process computes with one thread from here on, as a rank does:
    two threads on two busy cores wait for each other, which took 10 times as long.
    """
    from course_lib.display import in_notebook
    from course_lib.errors import TorchError
    from course_lib.system import host, linux, torch_versions

    if in_notebook():
        from course_lib.cells import follow_cells

        host.use_one_thread()
        follow_cells()
        # without a good torch the doctor still runs; all else says what is wrong
        with contextlib.suppress(TorchError), torch_versions.explained():
            if linux.available():
                _client().current_server()


if "IPython" in sys.modules:
    _warm_up_in_notebook()
