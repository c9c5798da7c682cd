"""Results on disk: found by their content, whole or not at all."""

import os
import subprocess
import sys

import pytest
import torch

from course_lib.studies import cache

VALUE = {"steps": torch.arange(5), "plan": {"rates": (0.1, "warm"), "target": None}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("COURSE_LIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compute():
    return VALUE


def fail():
    raise AssertionError("computed again")


def same(found):
    return found["plan"] == VALUE["plan"] and found["steps"].equal(VALUE["steps"])


def test_what_was_computed_once_is_found_again(folder):
    assert cache.fetch("one", compute) is VALUE
    assert same(cache.fetch("one", fail))
    with pytest.raises(AssertionError, match="computed again"):
        cache.fetch("two", fail)
    assert [path.name for path in folder.iterdir()] == ["one.pt"]


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


def empty(path):
    path.write_bytes(b"")


def foreign(path):
    path.write_text("a letter")


def another(path):
    torch.save([1, 2, 3], path)


def code(path):
    torch.save({"steps": pytest.main}, path)


def a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, empty, foreign, another, code])
def test_a_damaged_file_is_computed_again_and_replaced(folder, damage):
    cache.fetch("one", compute)
    damage(folder / "one.pt")
    assert cache.fetch("one", compute) is VALUE
    assert same(cache.fetch("one", fail))


def test_a_folder_in_the_place_of_a_file_does_no_harm(folder):
    cache.fetch("one", compute)
    a_folder(folder / "one.pt")
    assert cache.fetch("one", compute) is VALUE
    assert [path.name for path in folder.iterdir()] == ["one.pt"]


def test_a_file_in_the_place_of_the_folder_still_gives_the_result(folder):
    folder.write_text("in the way")
    assert cache.fetch("one", compute) is VALUE
    assert folder.read_text() == "in the way"


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_full_disk_still_gives_the_result_and_leaves_no_part(folder, monkeypatch):
    before = torch.save
    monkeypatch.setattr(torch, "save", lambda value, file: before(value, "/dev/full"))
    assert cache.fetch("one", compute) is VALUE
    assert list(folder.iterdir()) == []


def test_an_interrupt_of_the_writing_leaves_no_part(folder, monkeypatch):
    def interrupted(value, file):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.fetch("one", compute)
    assert list(folder.iterdir()) == []


def test_a_part_that_a_killed_process_left_goes_with_the_next_result(folder):
    folder.mkdir()
    old, new = folder / "old.part", folder / "new.part"
    for part in (old, new):
        part.write_text("half a res")
    os.utime(old, (0, 0))
    cache.fetch("one", compute)
    assert not old.exists() and new.exists()  # the new one may still be written


def test_the_error_of_a_computation_is_told_without_what_was_not_found():
    with pytest.raises(AssertionError) as caught:
        cache.fetch("one", fail)
    assert caught.value.__context__ is None


# --- where


def test_a_folder_is_chosen_by_the_first_variable_that_is_set(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "cache"
    monkeypatch.delenv("COURSE_LIB_CACHE")
    assert cache.folder() == tmp_path / "xdg" / "course_lib"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "course_lib"


@pytest.mark.parametrize("chosen", [True, False])
def test_a_user_without_a_home_gets_results(folder, monkeypatch, chosen):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(cache.Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if not chosen:
        monkeypatch.delenv("COURSE_LIB_CACHE")
    assert cache.fetch("one", compute) is VALUE
    assert (folder / "one.pt").exists() == chosen


# --- names


X = torch.arange(6.0)
PARTS = {
    "a value": [X, "plan"],
    "another value": [X, "plan2"],
    "another number": [X + 1e-6, "plan"],
    "another shape": [X.view(2, 3), "plan"],
    "another type": [X.view(torch.int32), "plan"],
    "another order": ["plan", X],
    "more": [X, "plan", None],
    "other bounds": ["ab", "c"],
    "bounds": ["a", "bc"],
    "an integer": [1],
    "a float": [1.0],
}


def test_other_content_has_another_name():
    names = {cache.digest(parts) for parts in PARTS.values()}
    assert len(names) == len(PARTS)


def test_equal_content_has_the_same_name_however_it_lies_in_memory():
    x = torch.arange(6.0).view(2, 3)
    assert cache.digest([x]) == cache.digest([x.T.contiguous().T])
    assert cache.digest([x]) == cache.digest([torch.nn.Parameter(x)])


def test_a_name_is_the_same_in_another_process():
    code = "import torch; from course_lib.studies import cache; x = torch.arange(6.0)"
    code += "; print(cache.digest([x, 'plan']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == cache.digest(PARTS["a value"])
