"""What a machine with a GPU is asked: its parts, without one."""

import json

import pytest

from benchmarks.gpu.__main__ import main


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


def test_what_a_part_found_is_kept_and_an_error_does_not_end_it(tmp_path, capsys):
    assert main(["--out", str(tmp_path), "machine"]) == 0
    found = json.loads((tmp_path / "findings.json").read_text())["machine"]
    assert "doctor" in found and "torch" in found
    assert "== machine: done" in capsys.readouterr().out
