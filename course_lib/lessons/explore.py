"""Sliders for what takes its time: the old figure stays until the new one is there."""

import html
import inspect
import time

import ipywidgets
from IPython.display import display
from IPython.utils.capture import capture_output
from ipywidgets import interactive

from course_lib.display import in_notebook, prose
from course_lib.errors import CourseError, UsageError
from course_lib.lessons.names import names

_SMALL = "font-size:90%;opacity:.8"
_VIEW = "application/vnd.jupyter.widget-view+json"


def explore(function, *, units: dict | None = None, **options) -> None:
    """Make sliders for the arguments of `function`, which draws or prints.

    `options` has for each argument a list, `(least, most)` or `(least, most, step)`;
    the function's own default comes first. `units` are shown:
    `cl.explore(show, units={"cap": "MiB"}, cap=[1, 5, 10, 25])`. While the function
    runs the old figure stays; if it fails, a sentence says why.

    Errors: `UsageError` if there is nothing to choose; what the first call raises.
    """
    sliders = {name: _slider(function, name, options[name]) for name in options}
    if not sliders:
        raise UsageError("explore() needs an argument to vary, as in cap=[1, 5, 10]")
    for name, slider in sliders.items():
        unit = (units or {}).get(name)
        slider.description = name.replace("_", " ") + (f" ({unit})" if unit else "")
    if not in_notebook():
        function(**{name: slider.value for name, slider in sliders.items()})
        return
    _Panel(function, sliders).show()


def _slider(function, name, choices):
    """Make the widget of one argument, at the function's own default if it has one."""
    try:
        slider = _of_choices(choices, _default(function, name))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"explore() cannot make a slider of {name}={choices!r:.60}: {error}"
        ) from None
    slider.continuous_update = False
    slider.style.description_width = "initial"
    slider.layout.width = "32em"
    return slider


def _of_choices(choices, default):
    if isinstance(choices, list):
        if len(choices) < 2:
            raise ValueError("two values or more are a choice")
        if default is not None and default not in choices:
            raise ValueError(f"the function's own {default!r} is not in it")
        labels = [f"{c:,}" if type(c) is int else str(c) for c in choices]
        options = list(zip(labels, choices, strict=True))
        widget = ipywidgets.SelectionSlider(options=options, value=choices[0])
    else:
        numbers = isinstance(choices, tuple)
        widget = interactive.widget_from_abbrev(choices) if numbers else None
    if widget is None:
        raise ValueError("give a list, or (least, most)")
    if default is not None:
        widget.value = default
        if widget.value != default:
            raise ValueError(f"the function's own {default!r} lies outside")
    return widget


def _default(function, name):
    parameter = inspect.signature(function).parameters.get(name)
    if parameter is None or parameter.default is parameter.empty:
        return None
    return parameter.default


class _Panel:
    """Sliders, a line that says what happens, the newest figure."""

    def __init__(self, function, sliders):
        self.function, self.sliders = function, sliders
        self.line, self.figure = ipywidgets.HTML(), ipywidgets.Output()
        for slider in sliders.values():
            slider.observe(self._moved, "value")

    def show(self):
        """Call the function once, then put all into the cell."""
        self.figure.outputs = outputs = self._outputs()
        sliders = self.sliders.values()
        box = ipywidgets.VBox([*sliders, self.line, self.figure, names()])
        box.add_class("course-explore")
        # where there are no widgets, the first figure
        note = "Run this cell to get its sliders."
        page = "".join(map(_as_html, outputs))
        bundle = {
            "text/plain": note,
            "text/html": f'<span style="{_SMALL}">{note}</span><br>{page}',
            _VIEW: box._repr_mimebundle_()[_VIEW],
        }
        display(bundle, raw=True)

    def _moved(self, _):
        began = time.monotonic()
        self._say("running; the figure below is that of before …")
        try:
            outputs = self._outputs()
        except CourseError as error:
            return self._say(f"No new figure: {error}")
        except KeyboardInterrupt:
            return self._say("Interrupted: the figure below is that of before.")
        except Exception as error:
            kind = type(error).__name__
            return self._say(f"No new figure: {kind}: {error}")
        self.figure.outputs = outputs
        seconds = time.monotonic() - began
        self._say(f"new, after {seconds:.1f} s" if seconds > 1 else "")

    def _outputs(self):
        """Return what the function displays and prints, as outputs of a notebook."""
        values = {name: slider.value for name, slider in self.sliders.items()}
        with capture_output() as captured:
            value = self.function(**values)
            _draw()
            if value is not None:
                display(value)
        text = captured.stdout + captured.stderr
        stream = {"output_type": "stream", "name": "stdout", "text": text}
        newest = {}  # of a place that was drawn again and again, as a launch does
        for number, rich in enumerate(captured.outputs):
            place = (rich.transient or {}).get("display_id", number)
            newest[place] = _output(rich)
        shown = (output for output in newest.values() if output["data"])
        return (*([stream] if text else []), *shown)

    def _say(self, text):
        words = prose(text).replace("\n", "<br>")
        self.line.value = f'<span style="{_SMALL}">{words}</span>'


def _draw():
    """Display the figures that are open, as the end of a cell does."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        display(plt.figure(number))
    plt.close("all")


def _output(rich):
    data = {"data": rich.data, "metadata": rich.metadata or {}}
    return {"output_type": "display_data", **data}


def _as_html(output):
    if output["output_type"] == "stream":
        return f"<pre>{html.escape(output['text'])}</pre>"
    data = output["data"]
    text = html.escape(data.get("text/plain", ""))
    return data.get("text/html") or f"<pre>{text}</pre>"
