"""A form in the notebook: what a job needs, and below it the job script."""

import html
from typing import Any

from course_lib.clusters.job_scripts import SCHEDULERS, job_script
from course_lib.display import in_notebook
from course_lib.errors import UsageError
from course_lib.text import many

_VIEW = "application/vnd.jupyter.widget-view+json"
# argument, label with its unit, least, most, value
_NUMBERS = (
    ("nodes", "nodes", 1, 1024, 2),
    ("gpus", "GPUs per node", 0, 16, 2),
    ("cores", "cores per rank", 1, 256, 4),
    ("memory", "memory per node (GB)", 1, 4096, 32),
    ("minutes", "time (minutes)", 1, 10_000, 60),
    ("restarts", "restarts by torchrun", 0, 100, 0),
)
_TEXTS = (
    ("script", "script and arguments", "train.py"),
    ("account", "account or project", ""),
    ("queue", "partition or queue", ""),
)


def form() -> None:
    """Show a form for the arguments of `job_script`, and below it the script.

    Where there are no widgets the script of its first values is shown, in a terminal
    it is printed.
    """
    given: dict[str, Any] = {name: value for name, _, value in _TEXTS}
    given |= {name: value for name, *_, value in _NUMBERS}
    first = job_script("slurm", **given)
    if not in_notebook():
        print(first)
        return
    from IPython.display import display

    note = "While the notebook runs, a form stands here. Its first values give:"
    page = f"{note}{first.page()}"
    bundle = {"text/plain": f"{note}\n\n{first}", "text/html": page}
    display(bundle | {_VIEW: _box()._repr_mimebundle_()[_VIEW]}, raw=True)


def _box():
    """All fields, a line that says what is asked for, and the script."""
    import ipywidgets

    look = {"style": {"description_width": "12em"}, "layout": {"width": "32em"}}
    fields = {}
    menus = {"scheduler": [*SCHEDULERS], "launcher": SCHEDULERS["slurm"]}
    for name, options in menus.items():
        fields[name] = ipywidgets.Dropdown(options=options, description=name, **look)
    for name, label, least, most, value in _NUMBERS:
        fields[name] = ipywidgets.BoundedIntText(
            value, min=least, max=most, description=label, **look
        )
    for name, label, text in _TEXTS:
        fields[name] = ipywidgets.Text(text, description=label, **look)
        fields[name].continuous_update = False
    shown = ipywidgets.HTML()

    def follow(change=None):
        if change and change["owner"] is fields["scheduler"]:
            fields["launcher"].options = SCHEDULERS[change["new"]]
        shown.value = _shown(**{name: field.value for name, field in fields.items()})

    for field in fields.values():
        field.observe(follow, "value")
    follow()
    return ipywidgets.VBox([*fields.values(), shown])


def _shown(*, scheduler, script, **values):
    """Return the script and what it asks for, or why there is none."""
    try:
        text = job_script(scheduler, script, **values)
    except UsageError as error:
        return f'<p role="status">No script: {html.escape(str(error))}</p>'
    ranks = many(values["nodes"] * max(values["gpus"], 1), "rank")
    words = f"{ranks} on {many(values['nodes'], 'node')}, by {values['launcher']}"
    return f'<p role="status">{html.escape(words)}</p>{text.page()}'
