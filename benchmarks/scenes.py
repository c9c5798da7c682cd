"""How large and how quick the stored scenes are, and what an animation would be."""

import io
import statistics
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from benchmarks import report
from tests import film
from tests.browser import CHROMIUM, SLIDERS, chromium

ROUNDS = 3
COMPARED = "00 shard"  # the scene that is made once more as an animation
EVENTS = 100_000
_INTRODUCTION = """# How large and how quick scenes are

The scenes that lessons have stored, in a page of Chromium {} without a network. A step
is an input of the slider of moments, a choice one of the other sliders, a zoom the
button +, each with the layout that follows it, without painting. All moments of all
positions are stepped through. Milliseconds: the median, and in brackets the longest of
{} rounds' medians of one and the same step.
"""
_HEAD = ["scene", "kB", "positions", "moments", "step (ms)", "choice (ms)", "zoom (ms)"]
# steps through a scene; for each kind the milliseconds of each step, in order
_STEPS = (
    f"async scene => {{ {SLIDERS}"
    + """
    const timed = action => {
        const start = performance.now()
        action()
        picture.getBoundingClientRect()
        picture.querySelector("text").getBBox()
        return performance.now() - start
    }
    const picture = scene.querySelector("svg")
    const [moments, ...sliders] = scene.querySelectorAll("input")
    const found = { step: [], choice: [], zoom: [] }
    for (const place of positions(sliders)) {
        sliders.forEach((slider, i) => {
            if (+slider.value !== place[i])
                found.choice.push(timed(() => put(slider, place[i])))
        })
        for (let n = 0; n <= +moments.max; n++)
            found.step.push(timed(() => put(moments, n)))
        await new Promise(requestAnimationFrame)
    }
    const closer = scene.querySelector("[aria-label='zoom in']")
    for (let n = 0; closer && n < 8; n++) found.zoom.push(timed(() => closer.click()))
    return found
}"""
)


class Times(NamedTuple):
    """Milliseconds of each step, choice and zoom of a scene, in one round."""

    step: list
    choice: list
    zoom: list


def run(rounds: int | None = None) -> str:
    """Step through all scenes in every round; the table comes back."""
    if CHROMIUM is None:
        sys.exit("scenes: there is no Chromium here (apt-get install chromium)")
    rounds = rounds or ROUNDS
    found = film.all_pages()
    measured = {name: [] for name in found}
    with chromium() as browser:
        version = browser.version.partition(".")[0]
        for number in range(rounds):
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr)
            for name, page in found.items():
                measured[name].append(_times(browser, page))
    print(file=sys.stderr)
    rows = [_row(name, found[name], times) for name, times in measured.items()]
    texts = [_INTRODUCTION.format(version, rounds), report.table(_HEAD, rows)]
    texts += [_many(), _animated(found[COMPARED])]
    return "\n".join([*texts, report.conditions()])


def _times(browser, page):
    with browser.new_context(offline=True) as context:
        shown = context.new_page()
        shown.set_content(f"<!DOCTYPE html><body>{page}</body>")
        return Times(**shown.locator(".scene").evaluate(_STEPS))


def _row(name, page, times):
    data = film.payload_of(page)
    moments = sum(map(len, data["runs"]))
    sizes = [f"{len(page) / 1e3:.0f}", len(data["runs"]), f"{moments:,}"]
    spread = [_spread([getattr(one, kind) for one in times]) for kind in Times._fields]
    return [name, *map(str, sizes), *spread]


def _spread(rounds):
    """Median and longest of the steps, of each its median over the rounds."""
    steps = [statistics.median(same) for same in zip(*rounds)]
    return f"{statistics.median(steps):.1f} ({max(steps):.1f})" if steps else "–"


def _many():
    """A sentence on the largest trace that a timeline takes."""
    from course_lib import scenes
    from course_lib.tracing.events import Event, Trace

    lengths = [0.01 + (number * 7919 % 101) / 50 for number in range(EVENTS // 2)]
    events = []
    for rank in range(2):
        at = 0.0
        for length in lengths:
            events.append(Event(rank, "compute", "forward", at, at + length))
            at += 1.1 * length
    trace = Trace(tuple(events), "measured")
    start = time.perf_counter()
    page = scenes.timeline(trace)._repr_html_()
    return (
        f"A timeline of {EVENTS:,} events takes {time.perf_counter() - start:.1f} s to "
        f"make and {len(page) / 1e3:.0f} kB.\n"
    )


def _animated(page):
    """A sentence on the same moments as an animation of matplotlib."""
    data = film.payload_of(page)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        seconds, other = _jshtml(data)
    times = len(other) / len(page)
    return (
        f"The {len(data['runs'][0])} moments of {COMPARED} as an animation of "
        f"matplotlib, `to_jshtml`: {seconds:.1f} s to make, {len(other) / 1e3:.0f} kB, "
        f"{times:.0f} times as large; pixels, in which nothing can be pointed at.\n"
    )


def _jshtml(data):
    """How many seconds the animation takes without the imports, and its page."""
    from matplotlib import pyplot as plt
    from matplotlib.animation import FuncAnimation
    from matplotlib.patches import Rectangle

    start = time.perf_counter()
    wide, high = data["size"]
    figure, axes = plt.subplots(figsize=(wide / 100, high / 100), dpi=100)

    def draw(moment):
        title, items = moment
        axes.clear()
        axes.set(xlim=(0, wide), ylim=(high, 0), title=title)
        axes.axis("off")
        for item in items.values():
            axes.add_patch(Rectangle((item.x, item.y), item.w, item.h, ec="k", fc="w"))
            axes.text(item.x + item.w / 2, item.y + item.h / 2, item.text, size=7)

    moments = film.moments(data)
    made = FuncAnimation(figure, draw, moments, init_func=list, save_count=len(moments))
    page = made.to_jshtml()
    plt.close(figure)
    return time.perf_counter() - start, page
