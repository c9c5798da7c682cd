"""What a machine with a GPU is asked: its parts, without one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import ranks
from benchmarks.gpu.__main__ import _MOST, PARTS, main
from benchmarks.gpu.tests import files

ROOT = Path(__file__).parents[1]


def test_a_part_that_was_not_reached_is_named(tmp_path, capsys):
    assert main(["--out", str(tmp_path), "--seconds", "0", "ranks", "truth"]) == 2
    said = capsys.readouterr().out
    assert "== ranks: not reached" in said and "== truth: not reached" in said
    assert "not done: ['ranks', 'truth']" in said
    assert (tmp_path / "log.txt").read_text() == said


def test_an_unknown_part_is_refused_before_anything_runs(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "new"), "everything"])
    assert "no part everything: choose from machine, tests" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_a_part_found_is_kept_and_an_error_does_not_end_it(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(PARTS, "machine", 400)  # whatever this machine is busy with
    assert main(["--out", str(tmp_path), "machine"]) == 0
    found = json.loads((tmp_path / "findings.json").read_text())["machine"]
    assert "doctor" in found and "torch" in found
    assert "== machine: done" in capsys.readouterr().out


def test_the_parts_have_their_limits_and_end_in_time():
    limits = {"machine": 10, "tests": 60, "ranks": 90}
    limits |= {"notebooks": 150, "truth": 100, "traces": 60}
    assert list(PARTS.items()) == list(limits.items())
    assert sum(PARTS.values()) <= _MOST == 8 * 60


def test_every_file_with_a_test_that_needs_a_gpu_is_run(request):
    marked = {item.path for item in request.session.items if _on_gpu(item)}
    assert marked <= {Path(file) for file in files()}
    assert any(file.endswith("test_cuda_ipc.py") for file in files())


def _on_gpu(item):
    return item.get_closest_marker("gpu") is not None


def test_several_gpus_are_asked_what_one_cannot_say():
    one = {name for name, *_ in ranks.CASES}
    more = ranks.of_several(4)
    assert not one & {name for name, *_ in more}
    assert {world_size for _, _, world_size, _ in more} == {2, 4, 8}
    assert {fn.__name__ for _, fn, *_ in more} == {"nccl", "trained", "between_gpus"}


def test_tests_are_collected_where_no_tool_of_this_house_is_installed():
    # a machine with a GPU that is lent has PyTorch and pytest, and no network
    tools = ["grimp", "importlinter", "mypy", "ruff", "nbgrader", "playwright"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({tools})); import tests.conftest"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
