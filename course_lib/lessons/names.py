"""Names and states of buttons and sliders, for screen readers."""

from pathlib import Path

import ipywidgets

_SCRIPT = Path(__file__).with_suffix(".js")


def names() -> ipywidgets.Output:
    """Return a widget without a look; it names a panel's buttons and sliders."""
    script = f"<script>{_SCRIPT.read_text(encoding='utf-8')}</script>"
    data = {"text/html": script, "text/plain": ""}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    return ipywidgets.Output(outputs=(output,), layout={"display": "none"})
