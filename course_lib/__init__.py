"""A course on multi-GPU training, in notebooks.

Launch real ranks from a cell, see what they did, check it.
"""

import importlib
import sys

# the public names in teaching order, each with the module that holds it; they are
# imported at first use, so that `import course_lib` is quick and the doctor runs
# without torch
_HOMES = {
    "doctor": "checkup",
    "devices": "accelerators",
    "trace": "tracing",
    "memory": "inventory",
    "launch": "launcher",
    "plot_timeline": "plots",
    "plot_memory": "device_plots",
    "plot_memory_over_time": "device_plots",
    "plot_transfers": "device_plots",
    "plot_sharding": "plots",
    "plot_scaling": "plots",
    "plot_digits": "plots",
    "plot_processes": "share_plots",
    "plot_sending": "share_plots",
    "plot_updates": "share_plots",
    "plot_staleness": "share_plots",
    "plot_rates": "share_plots",
    "plot_throughput": "study_plots",
    "plot_steps": "study_plots",
    "plot_curves": "curve_plots",
    "plot_spread": "curve_plots",
    "plot_pareto": "study_plots",
    "digits": "data",
    "pictures": "mnist",
    "sweep": "sweeps",
    "steps_to_target": "sweeps",
    "Study": "study",
    "Results": "results",
    "Trace": "timeline",
    "Event": "timeline",
    "happens_before": "timeline",
    "last_error": "errors",
    "check": "exercises",
    "hint": "exercises",
    "summary": "exercises",
    "NotYet": "exercises",
    "NotStarted": "exercises",
    "LaunchError": "errors",
    "LaunchTimeout": "errors",
    "LaunchStalled": "errors",
    "LaunchInterrupted": "errors",
    "UsageError": "errors",
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'course_lib' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"course_lib.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})


def _warm_up_in_notebook():
    """Start the process server early, so that the first launch is quick too."""
    from course_lib import linux, output

    if output.in_notebook() and linux.available():
        from course_lib import server

        server.current()


if "IPython" in sys.modules:
    _warm_up_in_notebook()
