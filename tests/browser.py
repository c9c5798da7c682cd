"""JupyterLab in a headless Chromium: start it, open a notebook, run its cells."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil

from tests import ports
from tests.leftovers import becomes, lives

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
ROOT = Path(__file__).parent.parent
_PATIENCE = 120_000  # milliseconds that a page may need on a slow, busy machine
NO_NEWS = str(ROOT / "course_lib/workspace/jupyter")  # as in the Makefile
# what of the outputs is hard to read, or cut
LOOKS = Path(__file__).with_name("looks.js").read_text(encoding="utf-8")
# of a scene: moves a slider; all combinations of the positions of some
SLIDERS = """
    const put = (slider, value) => {
        slider.value = value
        slider.dispatchEvent(new Event("input"))
    }
    const positions = sliders => sliders.reduce((rows, slider) => rows.flatMap(
        row => [...Array(+slider.max + 1).keys()].map(n => [...row, n])), [[]])
"""
CODE = ".jp-CodeCell:visible"  # of the notebook in front
# an outer make's own variables; where an outer run keeps its progress, its threads
_NOT_A_LEARNERS = ("MAKEFLAGS", "MAKELEVEL", "COURSE_LIB_PROGRESS", "OMP_NUM_THREADS")
# what the page shows is for a moment about the notebook before
_IDLE = """path => {
    const front = window.jupyterapp?.shell.currentWidget
    return front?.context?.path === path
        && front.sessionContext.session?.kernel?.status === "idle"
}"""
_RUN = """async number => {
    const notebook = window.jupyterapp.shell.currentWidget.content
    notebook.activeCellIndex = number
    await window.jupyterapp.commands.execute("notebook:run-cell")
}"""
_CHANGE_THEME = """theme =>
    window.jupyterapp.commands.execute("apputils:change-theme", { theme })"""
_SHUT_DOWN = """async () => {
    await window.jupyterapp.commands.execute("kernelmenu:shutdown")
    const { kernels } = window.jupyterapp.serviceManager
    await kernels.refreshRunning()
    return [...kernels.running()].length
}"""
_FIND = """text => window.jupyterapp.shell.currentWidget.content.widgets.findIndex(
    cell => cell.model.type === "code"
        && cell.model.sharedModel.getSource().includes(text))"""
# JupyterLab takes cells out of the page that outputs above have pushed out of view
_BRING_TO_VIEW = """async number => {
    const notebook = window.jupyterapp.shell.currentWidget.content
    await notebook.scrollToCell(notebook.widgets[number])
}"""


def options(port: int) -> list[str]:
    """How JupyterLab is started for a browser that is driven."""
    page = ["--no-browser", f"--port={port}", "--IdentityProvider.token="]
    return [*page, "--expose-app-in-browser", ports.FOR_JUPYTERLAB]


@contextlib.contextmanager
def serving(command, port, *, folder: Path, **more):
    """The address of the JupyterLab that a command starts in `folder`."""
    path = folder / "log.txt"
    # what is done is kept beside the notebook, as for a learner
    mine = {k: v for k, v in os.environ.items() if k not in _NOT_A_LEARNERS}
    with path.open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=mine | more,
        )
        try:
            assert becomes(lambda: _listens(port)), path.read_text()
            yield f"http://127.0.0.1:{port}/lab"
        finally:
            below = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGTERM)  # make, its shell and JupyterLab
            if not becomes(lambda: process.poll() is not None):
                process.send_signal(signal.SIGABRT)  # where it hangs is then in the log
                process.wait()
                raise AssertionError(path.read_text())
    # closing JupyterLab ends its kernels, and they end their servers and ranks
    assert becomes(lambda: not any(map(lives, below)))


def lab(work: Path):
    """JupyterLab in a learner's copy of the course, as a context."""
    port = ports.free()
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={work}"]
    root = ["--allow-root"] if os.geteuid() == 0 else []
    command += [*root, *options(port)]
    settings = {"JUPYTER_CONFIG_PATH": NO_NEWS, "PYTHONFAULTHANDLER": "1"}
    return serving(command, port, folder=work.parent, **settings)


def _listens(port):
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def chromium():
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def new_page(browser, **options):
    """A page of a browser, or of a context of it, that waits on a busy machine, too."""
    page = browser.new_page(**options)
    page.set_default_timeout(_PATIENCE)
    return page


def opened(browser, address, path):
    """A page with a notebook, its first cell chosen, its kernel idle."""
    page = new_page(browser, viewport={"width": 1200, "height": 1000})
    # a workspace of its own, made anew: no other notebook stands in a second tab
    page.goto(f"{address}/workspaces/{path.parent.name}/tree/{path}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.click()
    wait_for_kernel(page, path)
    return page


@contextlib.contextmanager
def visited(browser, address, path):
    """The same page, within this context: then its kernel is shut down, too.

    As the end of each lesson asks for: a kernel and its server of ranks hold about a
    gigabyte, and those of all lessons together more than a machine may have.
    """
    page = opened(browser, address, path)
    try:
        yield page
    finally:
        left = page.evaluate(_SHUT_DOWN)
        page.close()
    assert not left, f"{left} kernels go on"


def wait_for_kernel(page, path):
    """Wait until this notebook is in front and has a kernel: it drops cells before."""
    page.wait_for_function(_IDLE, arg=str(path))


def run(page, *texts):
    """Run the cells whose code holds these texts; the last of them comes back.

    By JupyterLab's command: a key goes to the cell that has the focus, which is no
    cell at all while outputs above push it out of view.
    """
    for text in texts:
        number = page.evaluate(_FIND, text)
        assert number >= 0, text
        run_cell(page, number)
    page.evaluate(_BRING_TO_VIEW, number)
    return page.locator(CODE, has_text=text).first


def run_all(page, choose=lambda number: None):
    """Run all cells one by one; `choose(number)` is called behind each."""
    show_all(page)
    for number in range(page.locator(".jp-Notebook .jp-Cell").count()):
        run_cell(page, number)
        choose(number)


def run_cell(page, number):
    """Run one cell, until it has ended."""
    page.evaluate(_RUN, number)


def save(page):
    """Write the notebook in front to its file."""
    page.evaluate("""() => window.jupyterapp.commands.execute("docmanager:save")""")
    page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
    )


def show_all(page):
    """Have all cells in the page, not only those near the one in view or unfolded."""
    page.evaluate("""async () => {
        const registry = window.jupyterapp.serviceManager.settings
        const id = "@jupyterlab/notebook-extension:tracker"
        await registry.save(id, '{"windowingMode": "none"}')
        await window.jupyterapp.commands.execute("notebook:expand-all-headings")
    }""")
    page.wait_for_function("""() => {
        const notebook = window.jupyterapp.shell.currentWidget.content
        const shown = document.querySelectorAll(".jp-Notebook .jp-Cell").length
        return shown === notebook.widgets.length
    }""")


def theme(page, name):
    """Change to the theme "Light" or "Dark"."""
    from playwright.sync_api import TimeoutError

    light = "false" if name == "Dark" else "true"
    body = page.locator(f"body[data-jp-theme-light='{light}']")
    for _ in range(5):
        page.evaluate(_CHANGE_THEME, f"JupyterLab {name}")
        # on a busy machine JupyterLab may load the one of before once more: ask again
        with contextlib.suppress(TimeoutError):
            return body.wait_for(state="attached", timeout=10_000)  # it has no height
    raise AssertionError(f"JupyterLab does not change to {name}")
