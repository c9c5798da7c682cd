"""`make shots`: pictures of each lesson as JupyterLab shows it, to be looked at.

`make shots ARGS="01 06b"` takes those of two lessons. A guess is made in each question,
the most tempting wrong one. The pictures are in `shots/`, which git does not track.
"""

import sys
import tempfile
from pathlib import Path

from course_lib.workspace import command
from tests import browser as driven
from tests.test_browser_lessons import Run
from tests.test_lessons import LESSONS

FOLDER = driven.ROOT / "shots"
WIDTH, HEIGHT, OVERLAP = 1100, 1300, 60
_PANEL = ".jp-NotebookPanel:visible .jp-WindowedPanel-outer"


def main(names: list[str]) -> int:
    """Run the lessons with these numbers, or all, and take their pictures."""
    chosen = [path for path in LESSONS if not names or path.stem.split("_")[0] in names]
    if not chosen or driven.CHROMIUM is None:
        numbers = ", ".join(path.stem.split("_")[0] for path in LESSONS)
        print(f"There is no Chromium, or none of these lessons: {numbers}.")
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, driven.chromium() as browser:
        work = Path(folder) / "work"
        command.main([str(work)])
        with driven.lab(work) as address:
            for path in chosen:
                count = sum(1 for _ in _shots(browser, address, path, work))
                print(f"{path.stem}: {count} pictures in {FOLDER}/", flush=True)
    return 0


def _shots(browser, address, path, work):
    """Run one lesson; the picture of each screen of it, in both themes."""
    for old in FOLDER.glob(f"{path.stem}-*.png"):
        old.unlink()
    with driven.visited(browser, address, Path("notebooks", path.name)) as page:
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        Run(page, path, work)
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        panel = page.locator(_PANEL).first
        for theme in ("Light", "Dark"):
            driven.theme(page, theme)
            height = panel.evaluate("panel => panel.scrollHeight")
            step = int(panel.bounding_box()["height"]) - OVERLAP
            for number, top in enumerate(range(0, height, step)):
                panel.evaluate("(panel, top) => { panel.scrollTop = top }", top)
                shot = FOLDER / f"{path.stem}-{theme.lower()}-{number:02}.png"
                panel.screenshot(path=shot)
                yield shot


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
