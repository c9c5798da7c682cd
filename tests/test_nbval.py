"""What docs/instructors.md says of nbval and notebooks with a launch."""

import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests import pages

PAGE = (pages.ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
LAUNCH = "import course_lib as cl\nrun = cl.launch(lambda rank, world_size: rank)"
TITLE = "2 ranks on the CPU, one thread each, 0.10 s"  # as it was at the end


def nbval(folder, option, *, marker="", stored="[0, 1]", compared=True):
    """True if a notebook of a launch and its result, as stored, passes."""
    check = "# NBVAL_CHECK_OUTPUT\n" if compared else ""
    plain = {"text/plain": stored}
    result = new_output("execute_result", plain, execution_count=2)
    shown = new_output("display_data", {"text/plain": TITLE, "text/html": TITLE})
    cells = [
        new_code_cell(marker + LAUNCH, outputs=[shown], execution_count=1),
        new_code_cell(f"{check}list(run)", outputs=[result], execution_count=2),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "notebook.ipynb")
    (folder / "pytest.ini").write_text("[pytest]\n")  # not that of the course
    command = [sys.executable, "-m", "pytest", "-q", option, "notebook.ipynb"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "2 passed" in done.stdout or "1 failed, 1 passed" in done.stdout
    return done.returncode == 0


@pytest.mark.proof
def test_lax_takes_a_launch_and_compares_what_is_marked(tmp_path, nothing_left):
    assert "pytest --nbval-lax NOTEBOOK.ipynb" in PAGE
    assert "`# NBVAL_CHECK_OUTPUT`" in PAGE
    assert nbval(tmp_path, "--nbval-lax")
    assert not nbval(tmp_path, "--nbval-lax", stored="[1, 0]")
    assert nbval(tmp_path, "--nbval-lax", stored="[1, 0]", compared=False)


@pytest.mark.proof
def test_plain_nbval_refuses_a_launch_that_is_not_marked(tmp_path, nothing_left):
    assert "fails for every cell that calls `cl.launch`" in PAGE
    assert "`# NBVAL_IGNORE_OUTPUT`" in PAGE
    assert not nbval(tmp_path, "--nbval")
    assert nbval(tmp_path, "--nbval", marker="# NBVAL_IGNORE_OUTPUT\n")
