"""The states of a folder that a kill could leave, whoever writes into it."""

import os
import shutil
import subprocess
import sys

import pytest

from course_lib.exercises.file_states import FolderStates, keep, kept, restore, snapshot

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells of each change"
)
OLD, NEW = b"o" * 9_000, b"n" * 9_000


def replaced(folder):
    (folder / "new").write_bytes(NEW)
    os.replace(folder / "new", folder / "it")


def copied_and_moved_by_programs(folder):
    (folder.parent / "elsewhere").write_bytes(NEW)
    line = f"cp {folder.parent}/elsewhere {folder}/new && mv {folder}/new {folder}/it"
    subprocess.run(line, shell=True, check=True)


def moved_in(folder):
    (folder.parent / "elsewhere").write_bytes(NEW)
    os.replace(folder.parent / "elsewhere", folder / "it")


def linked(folder):
    (folder / "new").write_bytes(NEW)
    os.link(folder / "new", folder / "more")
    os.replace(folder / "more", folder / "it")


@pytest.fixture
def folder(tmp_path):
    """A folder in which a whole file lies."""
    place = tmp_path / "folder"
    place.mkdir()
    (place / "it").write_bytes(OLD)
    return place


def moments_of(folder, change):
    """Every moment while `change` works on a folder."""
    states = FolderStates(folder)
    change(folder)
    states.look(5, 10)
    return states.close()


def contents(folder, change, name="it"):
    """What a file holds in each state, each once; "gone" where it is not there."""
    every = [moment.state.get(name, "gone") for moment in moments_of(folder, change)]
    return list(dict.fromkeys(every))


@pytest.mark.parametrize(
    "change", [replaced, copied_and_moved_by_programs, moved_in, linked]
)
def test_a_file_that_gets_its_name_by_a_move_is_old_or_new(folder, change):
    assert set(contents(folder, change)) <= {OLD, NEW}
    assert (folder / "it").read_bytes() == NEW


WRITERS = {
    "write_bytes": lambda folder: (folder / "it").write_bytes(NEW),
    "copyfile": lambda folder: shutil.copyfile(folder.parent / "new", folder / "it"),
    "cp": lambda folder: subprocess.run(
        ["cp", folder.parent / "new", folder / "it"], check=True
    ),
    "dd": lambda folder: subprocess.run(
        ["dd", f"if={folder.parent}/new", f"of={folder}/it", "status=none"], check=True
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_written_under_its_name_is_empty_then_half_then_whole(folder, writer):
    (folder.parent / "new").write_bytes(NEW)
    assert contents(folder, WRITERS[writer]) == [b"", NEW[:4_500], NEW]


def test_a_small_file_is_written_at_once(folder):
    def write(place):
        (place / "latest").write_text("10")

    assert contents(folder, write, "latest") == [b"", b"10"]


def test_what_is_added_to_a_file_leaves_its_beginning(folder):
    def add(place):
        with open(place / "it", "ab") as file:
            file.write(NEW)

    assert contents(folder, add) == [OLD, OLD + NEW[:4_500], OLD + NEW]


def test_a_file_that_stays_open_is_whole_after_its_last_write(folder):
    def write(place):
        with open(place / "it", "wb", buffering=0) as file:
            file.write(NEW)
            (place / "between").touch()
            file.write(NEW)
            (place / "later").touch()

    moments = moments_of(folder, write)
    earlier = [moment.state["it"] for moment in moments if moment.path == "between"]
    later = [moment.state["it"] for moment in moments if "later" in moment.state]
    assert earlier and NEW + NEW not in earlier
    assert later and set(later) == {NEW + NEW}


def test_between_a_removal_and_a_move_nothing_is_there(folder):
    def change(place):
        (place / "new").write_bytes(NEW)
        os.remove(place / "it")
        os.rename(place / "new", place / "it")

    assert contents(folder, change) == [OLD, "gone", NEW]


def test_a_folder_gets_its_name_with_all_that_is_in_it(folder):
    states = FolderStates(folder)
    (folder / "new").mkdir()
    states.watch(folder / "new")
    (folder / "new" / "part").write_bytes(NEW)
    os.rename(folder / "new", folder / "whole")
    states.look(0, 0)
    inside = [moment.state for moment in states.close() if "whole" in moment.state]
    assert inside == [{"it": OLD, "whole": None, "whole/part": NEW}]


def test_what_is_not_known_any_more_is_left_out(folder):
    def change(place):
        (place / "lost").write_bytes(NEW)
        os.remove(place / "lost")

    assert contents(folder, change, "lost") == ["gone"]


def test_moments_come_back_from_a_file_and_into_a_folder(folder, tmp_path):
    def change(place):
        replaced(place)
        os.symlink("it", place / "newest")

    moments = moments_of(folder, change)
    keep(moments, tmp_path / "kept")
    assert kept(tmp_path / "kept") == moments
    place = tmp_path / "again"
    (place / "more").mkdir(parents=True)
    for moment in moments:
        restore(place, moment.state)
        assert snapshot(place) == moment.state


def test_a_state_of_two_moments_counts_for_the_later(folder):
    states = FolderStates(folder)
    states.look(0, 5)
    states.look(5, 10)
    assert [moment.done for moment in states.close()] == [10]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "[",
        "[3]",
        '[{"state": {"it": 3}, "done": 0, "path": "", "part": "half"}]',
        '[{"state": {}, "done": 0, "path": "", "part": "other"}]',
        '[{"state": {"it": {"bytes": "x"}}, "done": 0, "path": "", "part": "half"}]',
    ],
)
def test_a_file_that_is_no_data_of_ours_gives_no_moments(tmp_path, text):
    if text is not None:
        (tmp_path / "kept").write_text(text)
    assert kept(tmp_path / "kept") == []
