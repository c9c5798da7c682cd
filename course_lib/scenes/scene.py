"""A scene as a notebook shows it: a still picture that comes alive where scripts run.

Tried: matplotlib's `to_jshtml` (155 kB for 13 moments, pixels, no dark theme, no names
for screen readers); plotly brings a library of 4.8 MB, bokeh of 1.3 MB, Vega and
anywidget one from a network or an extension. None moves things that stay themselves.
"""

import itertools
import json
from html import escape
from urllib.parse import quote

from course_lib.display import in_notebook
from course_lib.errors import UsageError
from course_lib.scenes import svg
from course_lib.scenes.arguments import several
from course_lib.scenes.items import Axis, checked

WIDTH = 640
LARGEST = 60_000  # bytes of a page that a scene may take


class Scene:
    """Frames that a reader plays, steps through and, by sliders, varies.

    `runs` has moments for each combination of the `parameters`, which are names with
    their values; of these, `at` are shown first. `source` says what was measured,
    modelled or counted, `alt` is said in place of the figure beside the last title;
    `seconds` is the time between two moments.

    Errors: `UsageError` where there is no moment, or an item is nowhere.
    """

    def __init__(
        self,
        runs: dict | list,
        *,
        height: float,
        source: str,
        parameters: dict | None = None,
        at: dict | None = None,
        axis: Axis | None = None,
        alt: str = "",
        seconds: float = 0.8,
    ):
        runs = runs if isinstance(runs, dict) else {(): runs}
        self.runs = {values: checked(moments) for values, moments in runs.items()}
        self.parameters = {name: list(v) for name, v in (parameters or {}).items()}
        self.at = at or {name: values[0] for name, values in self.parameters.items()}
        self.size, self.axis = (WIDTH, height), axis
        self.source, self.alt, self.seconds = source, alt, seconds

    @property
    def moments(self):
        """Return the moments that are shown first."""
        return self.runs[tuple(self.at[name] for name in self.parameters)]

    def show(self) -> None:
        """Display it above what a cell shows in the end; nothing outside notebooks."""
        if in_notebook():
            from IPython.display import display

            display(self)

    def __repr__(self):
        return f"<Scene of {len(self.moments)} moments: {self.moments[-1].title}>"

    def _repr_html_(self):
        return page(self)


def varied(make, options: dict, *, at: dict | None = None, **settings) -> Scene:
    """Return a scene of the moments `make(**values)` for all values in `options`.

    An option is a value, or a list of some for a slider, on which numbers are sorted.
    Its first value is shown first, or that in `at`.

    Errors: `UsageError` for a list without values, or where that in `at` is none of it.
    """
    options = {name: several(values) for name, values in options.items()}
    first = {}
    for name, values in options.items():
        if not values:
            raise UsageError(f"{name}: a slider needs at least one value")
        first[name] = (at or {}).get(name, values[0])
        if first[name] not in values:
            raise UsageError(f"{name}: {first[name]!r} is not among {values!r}")
    sliders = {name: _slider(values) for name, values in options.items()}
    sliders = {name: values for name, values in sliders.items() if len(values) > 1}
    runs = {
        values: make(**first | dict(zip(sliders, values)))
        for values in itertools.product(*sliders.values())
    }
    at = {name: first[name] for name in sliders}
    return Scene(runs, parameters=sliders, at=at, **settings)


def _slider(values):
    values = list(dict.fromkeys(values))
    return values if any(isinstance(v, str) for v in values) else sorted(values)


def page(scene: Scene) -> str:
    """Return the picture of the last moment, and the script that replaces it.

    Errors: `UsageError` where that takes more than 60 kB.
    """
    html = unlimited(scene)
    if len(html) > LARGEST:
        raise UsageError(
            f"this scene takes {len(html) / 1000:.0f} kB, at most {LARGEST // 1000}: "
            "give fewer values for a slider, or less to show"
        )
    return html


def unlimited(scene: Scene) -> str:
    """Return the same page, however large."""
    last = scene.moments[-1]
    still = svg.picture(scene, last).replace('"', "'")  # which need no quoting
    texts = last.title, scene.alt, scene.source
    alt = " ".join(f"{text.rstrip('.')}." for text in texts if text)
    picture = f"data:image/svg+xml,{quote(still, safe=_SAFE)}"
    image = f'<img alt="{escape(alt)}" src="{picture}" style="{_IMAGE}">'
    data = _json(payload(scene))
    style = _json(f"{svg.style(_all_items(scene))}\n{svg.read_file('scene.css')}")
    place = "document.currentScript?.previousElementSibling"
    script = f"{_program()}({place},{data},{style})"
    return f"<div>{image}</div><script>{script}</script>"


def _all_items(scene):
    for moments in scene.runs.values():
        for moment in moments:
            yield from moment.items


def _program():
    """Return the script without its comments, for each figure brings its own."""
    lines = map(str.strip, svg.read_file("scene.js").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _json(value):
    """JSON that may stand in a script: nothing in it ends the script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")


_SAFE = " =:/;,.()*'!~+-_"
_IMAGE = "display:block;max-width:100%"


def payload(scene: Scene) -> dict:
    """Return what the script reads: each state once, moments as changes."""
    words, states, ids = _Numbers(), _Numbers(), _Numbers()
    runs = [list(_changes(moments, states)) for moments in scene.runs.values()]
    rows = [
        [ids[item.id], *_numbers(item), *(words[text] for text in item[5:])]
        for item in states
    ]
    parameters = [
        {
            "name": name.replace("_", " "),
            "values": list(map(_value, values)),
            "at": values.index(scene.at[name]),
        }
        for name, values in scene.parameters.items()
    ]
    return {
        "size": scene.size,
        "axis": scene.axis and scene.axis._asdict(),
        "seconds": scene.seconds,
        "source": scene.source,
        "parameters": parameters,
        "states": rows,
        # after the rows, which are the most: the numbers of their words are short
        "runs": [[[words[title], changes] for title, changes in run] for run in runs],
        "words": list(words),
    }


class _Numbers(dict):
    """Things by the order in which they were asked for first."""

    def __missing__(self, thing):
        self[thing] = len(self)
        return self[thing]


def _changes(moments, states):
    """Title of each moment, with the states that come, or as -1 - state, go."""
    before = {}
    for title, items in moments:
        now = {item.id: states[item] for item in items}
        come = [state for name, state in now.items() if before.get(name) != state]
        gone = [-1 - state for name, state in before.items() if name not in now]
        yield title, come + gone
        before = now


def _numbers(item):
    numbers = (float(f"{number:.5g}") for number in item[1:5])
    return [int(number) if number.is_integer() else number for number in numbers]


def _value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
