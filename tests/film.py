"""The README's moving picture, from a scene that lesson 04 has stored: `make pages`.

A picture may hold no script, so the moments become one animation in CSS. It plays once
and ends with the last moment; where people want no motion, it shows that at once.
"""

import json
import textwrap
from html import escape
from pathlib import Path

from course_lib.scenes import svg
from course_lib.scenes.items import Axis, Item, label

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSON = ROOT / "notebooks" / "04_distributed_data_parallel.ipynb"
CELL = "default"
PICTURE = ROOT / "notebooks" / "images" / "timeline.svg"
SECONDS = 10
_TOP, _BELOW = 44, 38
CALL = "previousElementSibling,"  # the first argument of the script: each scene has it
_COLORS = {
    "light": {"ink": "#1b1b1b", "soft": "#595959", "ground": "#ffffff"}
    | {"line": "#767676", "faint": "#e6e6e6"},
    "dark": {"ink": "#f0f0f0", "soft": "#b8b8b8", "ground": "#0d1117"}
    | {"line": "#8a8a8a", "faint": "#30363d"},
}


def stored(path: Path = LESSON, cell: str = CELL) -> dict:
    """What the script of the scene reads that this cell has stored."""
    return payload_of(pages_of(path)[cell])


def pages_of(path: Path) -> dict[str, str]:
    """The page of each scene that a notebook has stored, by its cell."""
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            if CALL in page:
                found[cell["id"]] = page
    return found


def all_pages() -> dict[str, str]:
    """Those of all lessons, by lesson and cell: `00 timeline`."""
    return {
        f"{path.stem.partition('_')[0]} {cell}": page
        for path in LESSONS
        for cell, page in pages_of(path).items()
    }


def payload_of(page: str) -> dict:
    """The data that the script of a page is called with."""
    return json.JSONDecoder().raw_decode(page.partition(CALL)[2])[0]


def moments(data: dict, run: int = 0) -> list[tuple[str, dict]]:
    """Title of each moment, and its items by name."""
    words, now, rows = data["words"], {}, []
    states = [
        Item(name, *place, *(words[i] for i in texts))
        for name, *place, a, b, c in data["states"]
        for texts in [(a, b, c)]
    ]
    for title, changes in data["runs"][run]:
        for change in changes:
            if change < 0:
                now.pop(states[-1 - change].id)
            else:
                now[states[change].id] = states[change]
        rows.append((words[title], dict(now)))
    return rows


def film(data: dict) -> str:
    """The SVG document of a scene: what moves is animated, the rest is drawn once."""
    rows = moments(data)
    axis = Axis(**data["axis"]) if data["axis"] else None
    names = dict.fromkeys(name for _, items in rows for name in items)
    tracks = [[items.get(name) for _, items in rows] for name in names]
    still = [track[0] for track in tracks if len({*track}) == 1]
    moving = [track for track in tracks if len({*track}) > 1]
    width, height = data["size"]
    drawn = [*_ticks(axis), *svg.bodies(still, axis)]
    drawn += [_moving(n, track, axis) for n, track in enumerate(moving)]
    drawn += _titles([title for title, _ in rows])
    drawn += _lines(data["source"], height + 8, "label soft")
    box = f"-6 {-_TOP} {width + 12} {height + _TOP + _BELOW}"
    ground = '<rect x="-6" y="-44" width="100%" height="100%" fill="var(--ground)"/>'
    style = f"<style>{_looks()}{svg.style([i for t in tracks for i in t if i])}</style>"
    alt = f"<title>{escape(rows[-1][0])}</title>"
    return (
        f'<svg {svg.HEAD} viewBox="{box}">{alt}{style}{ground}{"".join(drawn)}</svg>\n'
    )


def _looks():
    light, dark = (
        "".join(f"--{name}:{color};" for name, color in theme.items())
        for theme in _COLORS.values()
    )
    return (
        f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
        f".moves{{animation:{SECONDS}s linear 1 both}}"
        "@media (prefers-reduced-motion:reduce){*{animation:none!important}}"
    )


def _lines(text, y, role):
    """A text that is wrapped, from the height `y` on."""
    return [
        svg.draw_item(label("text", (0, y + 17 * number), line, role=role))
        for number, line in enumerate(textwrap.wrap(text, 86))
    ]


def _ticks(axis):
    return [svg.tick(time, axis) for time in svg.ticks(axis)] if axis else []


def _moving(number, track, axis):
    """An item with a keyframe for each moment, drawn as it is in the last one."""
    placed = [item and (axis.place(item) if axis else item) for item in track]
    known = next(item for item in placed[::-1] if item)
    rows, sizes = [], []
    for share, item in zip(_shares(len(placed)), placed):
        at = item or known
        seen = f"opacity:{int(item is not None)}"
        rows.append(f"{share}{{transform:translate({at.x:.1f}px,{at.y:.1f}px);{seen}}}")
        sizes.append(f"{share}{{width:{at.w:.1f}px}}")
    gone = "" if placed[-1] else "opacity:0"
    inner = svg.draw_item(known._replace(x=0, y=0))
    inner = inner.replace(
        "<rect ", f'<rect style="animation-name:w{number}" class="moves" '
    )
    name, size = f"m{number}", f"w{number}"
    frames = f"{_keyframes(name, rows)}{_keyframes(size, sizes)}"
    at = f"translate({known.x:.1f}px,{known.y:.1f}px)"
    style = f"animation-name:{name};transform:{at};{gone}"
    return f'<style>{frames}</style><g class="moves" style="{style}">{inner}</g>'


def _keyframes(name, rows):
    return f"@keyframes {name}{{{''.join(rows)}}}"


def _titles(titles):
    """Each title while its moment lasts; the last one stays."""
    shares = [*_shares(len(titles)), "100%"]
    for number, title in enumerate(titles):
        last = number == len(titles) - 1
        text = "".join(_lines(title, 14 - _TOP, "label strong"))
        frames = f"0%{{opacity:0}}{shares[number]}{{opacity:1}}"
        frames += "" if last else f"{shares[number + 1]}{{opacity:0}}100%{{opacity:0}}"
        style = f"animation-name:t{number};animation-timing-function:step-end"
        style += "" if last else ";opacity:0"
        yield f"<style>@keyframes t{number}{{{frames}}}</style>"
        yield f'<g class="moves" style="{style}">{text}</g>'


def _shares(count):
    return [f"{100 * n / max(1, count - 1):.2f}%" for n in range(count)]
