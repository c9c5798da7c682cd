"""Outputs as the book shows them, where nothing runs."""

import re

from nbconvert.filters import ansi2html

_SLIDERS = "Run this cell to get its sliders."
MOVES = "In the notebook this figure has sliders."
# a colour of the 256 among the numbers of a code, as in `38;5;28;01`
_EXTENDED = re.compile(r"\x1b\[((?:\d+;)*?)38;5;(\d+)((?:;\d+)*)m")


def shown(output: dict) -> dict:
    """An output for a page where nothing runs; what is HTML stays as it is."""
    if output["output_type"] == "error":
        lines = "\n".join(output["traceback"])
        return page(f'<pre class="error">{ansi2html(few_colors(lines))}</pre>')
    if _SLIDERS in (stored := html_of(output)):
        return page(stored.replace(_SLIDERS, MOVES, 1))
    return output


def few_colors(text: str) -> str:
    """ANSI text with the 8 colours that a theme can set, in place of 256."""

    def nearest(match):
        number = int(match[2]) - 16
        if not 0 <= number < 216:
            return f"\x1b[{match[1]}39{match[3]}m"
        shares = number // 36, number // 6 % 6, number % 6
        bits = [share * 2 > max(shares) for share in shares]
        color = 30 + bits[0] + 2 * bits[1] + 4 * bits[2]
        return f"\x1b[{match[1]}{color}{match[3]}m"

    return _EXTENDED.sub(nearest, text)


def html_of(output: dict) -> str:
    """The HTML of an output, or ''."""
    return "".join(output.get("data", {}).get("text/html", ""))


def page(text: str) -> dict:
    """An output of HTML."""
    return {"output_type": "display_data", "data": {"text/html": text}, "metadata": {}}
