"""What was handed in: whose it is, what is refused, and that reading does no harm."""

import errno
import io
import os
import random
import socket
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from course_lib.errors import UsageError
from course_lib.grading.handed_in import archives
from course_lib.grading.handed_in.submissions import LARGEST, Refused, collect

NOTEBOOK = b'{"cells": []}'
MOODLE = "Jane Doe_123_assignsubmission_file_"
OTHER = "Jane Doe_9_assignsubmission_file_"


def write(folder, *names, content=NOTEBOOK):
    """Files below a folder, with the folders that they need; the first comes back."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / names[0]


def zipped(*names, content=NOTEBOOK, method=zipfile.ZIP_DEFLATED):
    """A zip file with the same content in each member; a ZipInfo is taken as it is."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in names:
            archive.writestr(name, content)
    return file.getvalue()


def learners(*paths):
    return [one.learner for one in collect(paths)]


def refusal(submission):
    with pytest.raises(Refused) as caught:
        submission.read()
    return str(caught.value)


def refused(path):
    """Why the one submission at `path` is refused."""
    (one,) = collect([path])
    return refusal(one)


# whose it is: what was named, the files in it, the learners in their order
TREES = {
    "Moodle, a folder for each": (
        "week4",
        [f"{MOODLE}/04.ipynb", "Bo Li_7_assignsubmission_file_/04.ipynb"],
        ["Bo Li", "Jane Doe"],
    ),
    "Moodle, flat": ("week4", [f"{MOODLE}04.ipynb"], ["Jane Doe"]),
    "Moodle, folders of weeks": (
        "all",
        [f"week4/{MOODLE}/a.ipynb", f"week5/{OTHER}/b.ipynb"],
        ["Jane Doe", "Jane Doe"],
    ),
    "Moodle, one learner's folder": (
        MOODLE,
        ["04.ipynb", "05.ipynb"],
        ["Jane Doe"] * 2,
    ),
    "Moodle, two of one name": (
        "week4",
        [f"{MOODLE}/04.ipynb", f"{OTHER}/04.ipynb"],
        ["Jane Doe (123)", "Jane Doe (9)"],
    ),
    "Canvas": (
        "week4",
        ["doejane_123_4567_04_distributed-1.ipynb", "li-bo_LATE_9_4567_04.ipynb"],
        ["doejane", "li-bo"],
    ),
    "Canvas, unpacked in a folder": (
        "downloads",
        ["submissions/doejane_123_4567_04.ipynb", "submissions/libo_9_45_x.ipynb"],
        ["doejane", "libo"],
    ),
    "nbgrader's submitted": (
        "submitted",
        ["jane/assignment4/04.ipynb", "jane/assignment5/05.ipynb"],
        ["jane", "jane"],
    ),
    "nbgrader's course": (
        "course",
        ["submitted/jane/ps4/04.ipynb", "submitted/bo/ps4/04.ipynb"],
        ["bo", "jane"],
    ),
    "a folder for each": ("week4", ["jane/04.ipynb", "bo/a/05.ipynb"], ["bo", "jane"]),
    "homes": (
        "home",
        ["jane/course/exercises/04.ipynb", "bo/course/solutions/04.ipynb"],
        ["bo", "jane"],
    ),
    "one home": ("home", ["jane/a/04.ipynb", "jane/b/04.ipynb"], ["jane", "jane"]),
    "one learner": ("week4", ["jane/course/exercises/04.ipynb"], ["jane"]),
    "one learner's course": (
        "week4",
        ["jane/exercises/04.ipynb", "jane/exercises/05.ipynb"],
        ["jane", "jane"],
    ),
    "one learner's folders": (
        "week4",
        ["jane/work/a/04.ipynb", "jane/work/b/05.ipynb"],
        ["jane", "jane"],
    ),
    "a folder around all": (
        "downloads",
        ["week4/jane/04.ipynb", "week4/bo/04.ipynb"],
        ["bo", "jane"],
    ),
    "renamed files": ("week4", ["jane.ipynb", "bo.IPYNB"], ["bo", "jane"]),
    "names of exercises": ("jane", ["04_ddp.ipynb", "05 (1).ipynb"], ["jane", "jane"]),
    "copies of one exercise": ("jane", ["04_a.ipynb", "04_a (1).ipynb"], ["jane"] * 2),
    "one exercise of several": ("w", ["04_b.ipynb", "04_c.ipynb"], ["04_b", "04_c"]),
    "own exercises": ("me/exercises", ["04.ipynb", "mine.ipynb"], ["me", "me"]),
    "own course": ("me", ["exercises/04.ipynb", "exercises/05.ipynb"], ["me", "me"]),
    "own copy": (
        "me",
        ["work/exercises/04.ipynb", "exercises/04.ipynb", "docs/a.md"],
        ["me"],
    ),
    "own copy alone": ("me/work", ["exercises/04.ipynb", "x.ipynb"], ["me", "x"]),
    "exercises of an own copy": (
        "me/work/exercises",
        ["04.ipynb", "y.ipynb"],
        ["me"] * 2,
    ),
    "copies in homes": (
        "home",
        [
            "jane/course/work/exercises/04.ipynb",
            "jane/course/exercises/04.ipynb",
            "bo/course/exercises/04.ipynb",
            "bo/course/work/exercises/notes.txt",
        ],
        ["bo", "jane"],
    ),
    "a folder named work": ("work", ["04_a.ipynb", "05_b.ipynb"], ["work"] * 2),
    "own solutions": ("me", ["solutions/04.ipynb"], ["me"]),
    "another's folder name in a home": (
        "home",
        [f"bo/{MOODLE}/04.ipynb", "jane/04.ipynb"],
        ["bo", "jane"],
    ),
    "another's file name in a folder": (
        "week4",
        ["bo/doejane_123_4567_04.ipynb", "jane/04.ipynb"],
        ["bo", "jane"],
    ),
}


# whose it is, the folder around tells
NOT_ZIPPED = ("own exercises", "own copy alone", "exercises of an own copy")


@pytest.mark.parametrize(("named", "files", "expected"), TREES.values(), ids=TREES)
def test_the_path_tells_whose_notebook_it_is(tmp_path, named, files, expected):
    write(tmp_path / named, *files)
    assert learners(tmp_path / named) == expected


@pytest.mark.parametrize("case", [c for c in TREES if not c.endswith(NOT_ZIPPED)])
def test_a_zip_file_tells_it_as_its_folder_does(tmp_path, case):
    named, files, expected = TREES[case]
    path = write(tmp_path, f"{named}.zip", content=zipped(*files))
    assert learners(path) == expected


@pytest.mark.parametrize("course", ["jane/course", "week4/jane/course", "."])
def test_solutions_and_lessons_beside_exercises_are_nobodys_hand_in(tmp_path, course):
    write(tmp_path / course, "exercises/04.ipynb", "solutions/04.ipynb")
    write(tmp_path / course, "notebooks/04.ipynb")
    write(tmp_path, "bo/solutions/04.ipynb")  # with no exercises beside it
    found = [one.source for one in collect([tmp_path])]
    assert len(found) == 2 and any("exercises" in one for one in found), found
    assert any("bo/solutions" in one for one in found), found


def test_who_writes_in_work_hands_in_what_is_there(tmp_path):
    files = ["exercises/04.ipynb", "notebooks/04.ipynb", "solutions/04.ipynb"]
    files += ["docs/a.md", "tests/a.py", *(f"work/{file}" for file in files)]
    write(tmp_path / "home/jane/course", *files)
    write(tmp_path / "home", "bo.zip", content=zipped(*files))
    found = [(one.learner, one.source) for one in collect([tmp_path / "home"])]
    assert found == [
        ("bo", "bo.zip/work/exercises/04.ipynb"),
        ("jane", "jane/course/work/exercises/04.ipynb"),
    ]
    given = tmp_path / "home/jane/course/exercises"
    assert [one.source for one in collect([given])] == ["04.ipynb"]  # as it was asked


def test_an_exercise_of_a_course_that_is_named_itself_is_its_owners(tmp_path):
    write(tmp_path / "jane/exercises", "04_ddp.ipynb", "mine.ipynb")
    folder = tmp_path / "jane/exercises"
    assert learners(folder / "04_ddp.ipynb", folder / "mine.ipynb") == ["jane", "mine"]
    write(tmp_path / "bo/work/exercises", "04_ddp.ipynb")
    assert learners(tmp_path / "bo/work/exercises/04_ddp.ipynb") == ["bo"]


def test_a_notebook_named_alone_is_called_by_its_file_or_its_platform(tmp_path):
    names = ["04_ddp.ipynb", f"{MOODLE}04.ipynb", "doejane_LATE_12_34_04.ipynb"]
    write(tmp_path, *names)
    found = learners(*(tmp_path / name for name in names))
    assert found == ["04_ddp", "Jane Doe", "doejane"]


def test_a_folder_of_zip_files_is_a_class(tmp_path):
    write(tmp_path, "jane.zip", content=zipped("exercises/04.ipynb"))
    write(tmp_path, "bo.ZIP", content=zipped("course/04.ipynb", "course/05.ipynb"))
    write(tmp_path, f"{MOODLE}/w.zip", content=zipped("x/doe_1_2_04.ipynb"))
    assert learners(tmp_path) == ["Jane Doe", "bo", "bo", "jane"]


def test_a_zip_file_of_zip_files_is_a_class(tmp_path):
    path = write(
        tmp_path, "week4.zip", content=zipped("jane.zip", content=zipped("a.ipynb"))
    )
    (one,) = collect([path])
    assert (one.learner, one.source) == ("jane", "week4.zip/jane.zip/a.ipynb")
    assert one.read() == NOTEBOOK


def test_what_a_platform_packed_and_put_in_a_folder_is_a_class(tmp_path):
    inside = zipped("week4/jane/04.ipynb", "week4/bo/04.ipynb")
    write(tmp_path, "week4.zip", content=inside)
    assert learners(tmp_path) == ["bo", "jane"]


def test_notebooks_come_by_learner_and_then_by_source(tmp_path):
    names = ["b/04.ipynb", "a/05.ipynb", "a/04.ipynb", "a/old/04.ipynb"]
    write(tmp_path, *names)
    assert [one.source for one in collect([tmp_path])] == sorted(names)


def test_a_notebook_is_read_as_it_is_when_it_is_asked_for(tmp_path):
    path = write(tmp_path, "jane.ipynb")
    (one,) = collect([str(path)])
    path.write_bytes(b"later")
    assert (one.learner, one.source, one.read()) == ("jane", "jane.ipynb", b"later")


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    write(tmp_path / "jane", "04.ipynb")
    monkeypatch.chdir(tmp_path / "jane")
    (one,) = collect([Path(".")])
    monkeypatch.chdir(tmp_path)
    assert (one.learner, one.read()) == ("jane", NOTEBOOK)


def test_what_jupyter_and_macos_leave_behind_is_passed_over(tmp_path):
    hidden = [".ipynb_checkpoints/a.ipynb", ".b.ipynb", "__MACOSX/c.ipynb", "d.txt"]
    names = ["jane/04.ipynb", *hidden, *(f"jane/{name}" for name in hidden)]
    write(tmp_path / "week4", *names)
    path = write(tmp_path, "week4.zip", content=zipped(*names))
    assert learners(tmp_path / "week4") == learners(path) == ["jane"]


# nothing there


def test_a_learner_without_a_notebook_is_in_the_report(tmp_path):
    names = ["jane/04.ipynb", "bo/04.txt", "cy/.hidden/04.ipynb", "di/"]
    for name in names:
        write(tmp_path / "week4", name if name[-1] != "/" else f"{name}.keep")
    path = write(tmp_path, "week4.zip", content=zipped(*names))
    for named in (tmp_path / "week4", path):
        *others, jane = sorted(collect([named]), key=lambda one: one.learner == "jane")
        assert [one.learner for one in others] == ["bo", "cy", "di"]
        assert all("there is no notebook" in refusal(one) for one in others)
        assert jane.read() == NOTEBOOK


def test_a_platforms_folder_without_a_notebook_is_in_the_report_of_weeks(tmp_path):
    empty = MOODLE.replace("Jane Doe", "Bo Li")
    write(tmp_path, f"w4/{MOODLE}/a.ipynb", f"w5/{MOODLE}/a.ipynb", f"w5/{empty}/a.txt")
    assert learners(tmp_path) == ["Bo Li", "Jane Doe", "Jane Doe"]


def test_what_cannot_be_graded_changes_no_name_of_another(tmp_path):
    good = ["week4/ann/04.ipynb", "week4/bo/04.ipynb", "week4/cy/04.txt"]
    write(tmp_path, *good, "week4/di.zip", content=b"damaged")
    (tmp_path / "week4/ed").symlink_to("ann")
    assert learners(tmp_path) == ["ann", "bo", "cy", "di", "ed"]


def test_a_zip_file_without_a_notebook_is_in_the_report(tmp_path):
    write(tmp_path, "bo.zip", content=zipped("04.txt"))
    write(tmp_path, "cy.ipynb")
    bo, cy = collect([tmp_path])
    assert (bo.learner, bo.source, cy.learner) == ("bo", "bo.zip", "cy")
    assert "there is no notebook" in refusal(bo)


def test_who_has_a_notebook_misses_none_elsewhere(tmp_path):
    online = MOODLE.replace("file", "onlinetext")
    write(tmp_path, f"{MOODLE}/04.ipynb", f"{online}/text.html", f"{MOODLE}/data/x.csv")
    write(tmp_path, f"{MOODLE}/data.zip", content=zipped("x.csv"))
    assert learners(tmp_path) == ["Jane Doe"]


@pytest.mark.parametrize("notebook", ["jane.ipynb", "exercises/04.ipynb"])
def test_a_folder_of_pictures_beside_notebooks_is_nobody(tmp_path, notebook):
    write(tmp_path, notebook, "pictures/a.png")
    assert len(collect([tmp_path])) == 1


def test_an_empty_path_among_others_is_in_the_report(tmp_path):
    write(tmp_path, "jane/04.ipynb", "bo/04.txt")
    bo, _ = collect([tmp_path / "jane", tmp_path / "bo"])
    assert (bo.learner, bo.source) == ("bo", "bo")
    assert "there is no notebook" in refusal(bo)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file or folder"),
        ("notes.txt", "expected a notebook"),
        ("empty", "found no notebook"),
        ("empty.zip", "found no notebook"),
    ],
)
def test_a_path_without_a_notebook_is_an_error(tmp_path, name, message):
    write(tmp_path, "notes.txt", "empty/jane/notes.txt")
    write(tmp_path, "empty.zip", content=zipped("notes.txt"))
    with pytest.raises(UsageError, match=message) as caught:
        collect([tmp_path / name])
    assert name in str(caught.value)


def test_no_path_is_an_error():
    with pytest.raises(UsageError, match="in nothing"):
        collect([])


# files that are not read


def test_links_below_a_named_folder_are_refused(tmp_path):
    secret = write(tmp_path, "secret/04.ipynb")
    week = tmp_path / "week4"
    week.mkdir()
    for name, target in [
        ("bo.ipynb", secret),
        ("cy", secret.parent),
        ("di.zip", secret),
        ("ed.ipynb", "ed.ipynb"),
        ("loop", "loop"),
    ]:
        (week / name).symlink_to(target)
    found = collect([week])
    assert [one.source for one in found] == ["bo.ipynb", "cy", "di.zip", "ed.ipynb"]
    assert all("symbolic link" in refusal(one) for one in found)


def test_a_link_that_was_named_itself_is_followed(tmp_path):
    write(tmp_path, "week4/jane.ipynb")
    (tmp_path / "link").symlink_to("week4")
    (tmp_path / "bo.ipynb").symlink_to("week4/jane.ipynb")
    both = collect([tmp_path / "link", tmp_path / "bo.ipynb"])
    assert [(one.learner, one.read()) for one in both] == [
        ("bo", NOTEBOOK),
        ("jane", NOTEBOOK),
    ]


@pytest.mark.parametrize("swapped", ["jane", "jane/04.ipynb"])
def test_what_becomes_a_link_before_it_is_read_is_refused(tmp_path, swapped):
    write(tmp_path, "week4/jane/04.ipynb", "week4/bo/04.ipynb")
    jane = collect([tmp_path / "week4"])[1]
    path = tmp_path / "week4" / swapped
    path.rename(tmp_path / "old")
    path.symlink_to(tmp_path / "old")
    assert "symbolic link" in refusal(jane)


def test_no_link_is_followed_that_appears_while_a_file_is_opened(tmp_path, monkeypatch):
    path = write(tmp_path, "week4/jane.ipynb")
    (jane,) = collect([path.parent])
    path.rename(tmp_path / "old")
    path.symlink_to(tmp_path / "old")
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    assert "cannot be read" in refusal(jane)


def test_a_pipe_or_socket_is_refused_and_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("a.ipynb")
    os.mkfifo("b.zip")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("c.ipynb")
        found = collect([tmp_path])
        assert [one.learner for one in found] == ["a", "b", "c"]
        assert all("not an ordinary file" in refusal(one) for one in found)
    assert "not an ordinary file" in refused(tmp_path / "a.ipynb")


@pytest.mark.parametrize("name", ["jane.ipynb", "jane.zip"])
def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch, name):
    def deny(path, flags):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = write(tmp_path, name, content=zipped("04.ipynb"))
    monkeypatch.setattr(os, "open", deny)  # the tests may run as root, who may read all
    assert "cannot be read (Permission denied)" in refused(path)


def test_a_folder_that_may_not_be_read_costs_no_other_learner(tmp_path, monkeypatch):
    def deny(path, scandir=os.scandir):
        if Path(path).name == "bo":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    write(tmp_path, "bo/04.ipynb", "jane/04.ipynb")
    monkeypatch.setattr(os, "scandir", deny)
    bo, jane = collect([tmp_path])
    assert (bo.learner, jane.learner) == ("bo", "jane")
    assert "Permission denied" in refusal(bo)


@pytest.mark.parametrize("name", ["jane.ipynb", "jane.zip"])
def test_a_file_that_vanished_is_refused(tmp_path, name):
    path = write(tmp_path, name, content=zipped("04.ipynb"))
    (one,) = collect([path])
    path.unlink()
    assert "No such file" in refusal(one)


def test_each_zip_file_is_opened_once_for_all_that_is_in_it(tmp_path, monkeypatch):
    inner = zipped("04.ipynb", "05.ipynb")
    names = [f"learner {n}.zip" for n in range(4)]
    path = write(tmp_path, "week4.zip", content=zipped(*names, content=inner))
    found, opened = collect([path]), []
    monkeypatch.setattr(archives, "open_zip", counted(archives.open_zip, opened))
    for _ in range(2):
        assert {one.read() for one in found[:2]} == {NOTEBOOK}
    assert len(opened) == 2
    assert {one.read() for one in found} == {NOTEBOOK} and len(found) == 8
    assert len(opened) == 2 + 3


def counted(function, calls):
    def call(*args):
        calls.append(args)
        return function(*args)

    return call


def test_another_zip_file_in_its_place_is_refused(tmp_path):
    path = write(tmp_path, "week4.zip", content=zipped("jane.ipynb", "bo.ipynb"))
    bo, jane = collect([path])
    path.write_bytes(zipped("bo.ipynb"))
    assert "changed" in refusal(bo) and "changed" in refusal(jane)


# sizes


def test_a_notebook_of_the_limit_is_read_and_a_byte_more_is_not(tmp_path):
    path = write(tmp_path, "jane.ipynb", content=bytes(LARGEST))
    (one,) = collect([path])
    assert len(one.read()) == LARGEST
    os.truncate(path, LARGEST + 1)
    reason = refusal(one)
    assert "20,000,001 bytes" in reason and "at most 20,000,000" in reason
    assert "clear its outputs" in reason


def test_a_notebook_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, "jane.ipynb", content=bytes(LARGEST + 9))
    small = os.stat_result((stat.S_IFREG, *[0] * 9))
    monkeypatch.setattr(os, "fstat", lambda _: small)
    assert "20,000,001 bytes" in refused(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_is_too_large_is_refused(tmp_path, method):
    content = zipped("jane.ipynb", content=bytes(LARGEST + 1), method=method)
    path = write(tmp_path, "week4.zip", content=content)
    assert "20,000,001 bytes" in refused(path)


def test_a_member_that_inflates_to_more_than_it_claims_is_damaged(tmp_path):
    content = zipped("jane.ipynb", content=bytes(10 * LARGEST))
    truth, lie = struct.pack("<I", 10 * LARGEST), struct.pack("<I", 1000)
    assert content.count(truth) == 2
    path = write(tmp_path, "week4.zip", content=content.replace(truth, lie))
    tracemalloc.start()
    assert "damaged" in refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * LARGEST


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_packed_by_an_unbounded_method_is_refused(tmp_path, method):
    path = write(tmp_path, "week4.zip", content=zipped("jane.ipynb", method=method))
    assert "packed by a method" in refused(path)


def test_a_zip_file_in_a_zip_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_LARGEST_ZIP", 9_000)
    path = write(tmp_path, "a.zip", content=zipped("jane.zip", content=bytes(9_001)))
    assert "9,001 bytes, and at most 9,000 are read: pack less" in refused(path)


def test_a_zip_file_in_a_zip_file_may_be_larger_than_a_notebook(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("pictures.bin", bytes(LARGEST))
        archive.writestr("04.ipynb", NOTEBOOK)
    outer = zipped("jane.zip", content=inner.getvalue(), method=zipfile.ZIP_STORED)
    (jane,) = collect([write(tmp_path, "week4.zip", content=outer)])
    assert jane.read() == NOTEBOOK


def test_a_zip_file_of_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_MOST", 3)
    names = [f"{number}.ipynb" for number in range(4)]
    path = write(tmp_path, "week4.zip", content=zipped(*names))
    assert "more than 100,000 files" in refused(path)


def test_a_zip_file_that_claims_a_huge_table_of_contents_is_refused(tmp_path):
    path = write(tmp_path, "jane.zip")
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 9, 9, 10 * LARGEST, 0, 0)
    with path.open("wb") as file:
        file.truncate(10 * LARGEST)  # takes no space on disk
        file.seek(0, os.SEEK_END)
        file.write(end)
    assert "more than 100,000 files" in refused(path)


def test_thousands_of_members_are_each_read(tmp_path):
    names = [f"{number:04}/a.ipynb" for number in range(3000)]
    path = write(tmp_path, "week4.zip", content=zipped(*names))
    found = collect([path])
    assert [one.learner for one in found] == [name[:4] for name in names]
    assert found[0].read() == found[2999].read() == NOTEBOOK


def test_folders_deeper_than_any_path_cost_little(tmp_path):
    names = [f"{number}/{'a/' * 30_000}x.ipynb" for number in range(20)]
    path = write(tmp_path, "week4.zip", content=zipped(*names))
    assert sorted(learners(path), key=int) == [str(number) for number in range(20)]


# zip files that are not as they should be


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip file", zipped("a.ipynb")[:-30]],
    ids=["empty", "no zip file", "cut short"],  # a zip file holds the time
)
def test_a_damaged_zip_file_is_refused_and_its_learner_named(tmp_path, content):
    path = write(tmp_path, "jane.zip", content=content)
    write(tmp_path, "class/jane.zip", "class/bo.ipynb", content=content)
    outer = write(tmp_path, "outer.zip", content=zipped("jane.zip", content=content))
    for named in (path, tmp_path / "class", outer):
        jane = collect([named])[-1]
        assert (jane.learner, jane.source[-8:]) == ("jane", "jane.zip")
        assert "a damaged zip file" in refusal(jane)


def test_a_damaged_member_costs_no_other_learner(tmp_path):
    content = zipped("bo.ipynb", "jane.ipynb", method=zipfile.ZIP_STORED)
    path = write(tmp_path, "week4.zip", content=content.replace(NOTEBOOK, b"?" * 13, 1))
    bo, jane = collect([path])
    assert "a damaged zip file" in refusal(bo)
    assert jane.read() == NOTEBOOK


def test_no_change_of_a_byte_raises_anything_else(tmp_path):
    good = zipped("bo.ipynb", "jane.zip", content=zipped("a.ipynb"))
    path = tmp_path / "week4.zip"
    random.seed(0)
    reasons = set()
    for _ in range(500):
        content = bytearray(good)
        content[random.randrange(len(good))] = random.randrange(256)
        path.write_bytes(content)
        reasons |= outcomes(path)
    assert {"read", "damaged"} <= reasons


def outcomes(path):
    """How reading of each submission ended; no notebook at all is an end too."""
    found = set()
    try:
        submissions = collect([path])
    except UsageError:
        return {"none"}
    for one in submissions:
        try:
            one.read()
            found.add("read")
        except Refused as error:
            found |= {"damaged"} & set(str(error).split())
    return found


def test_a_locked_member_is_refused(tmp_path):
    content = bytearray(zipped("jane.ipynb"))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flags in both headers
        content[content.index(mark) + offset] |= 1
    path = write(tmp_path, "week4.zip", content=content)
    assert "password" in refused(path)


def test_a_zip_file_three_deep_is_refused(tmp_path):
    deep = zipped("b.zip", content=zipped("c.zip", content=zipped("x.ipynb")))
    path = write(tmp_path, "jane.zip", content=deep)
    (one,) = collect([path])
    assert (one.learner, one.source) == ("b", "jane.zip/b.zip/c.zip")
    assert "a zip file in a zip file" in refusal(one)


def test_a_link_in_a_zip_file_is_refused(tmp_path):
    link = zipfile.ZipInfo("jane.ipynb")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    path = write(tmp_path, "week4.zip", content=zipped(link, content="/etc/passwd"))
    assert "symbolic link" in refused(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_both_there(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for content in ("first", "second"):
            archive.writestr("jane/04.ipynb", content)
    path = write(tmp_path, "week4.zip", content=file.getvalue())
    assert [one.read() for one in collect([path])] == [b"first", b"second"]


@pytest.mark.parametrize(
    "name",
    ["../../jane/x.ipynb", "/jane/x.ipynb", "jane/../x.ipynb", "..\\jane\\x.ipynb"],
)
def test_a_name_that_leads_elsewhere_does_no_harm(tmp_path, name):
    path = write(tmp_path, "a/week4.zip", content=zipped(name))
    (one,) = collect([path])
    assert (one.learner, one.source) == ("jane", "week4.zip/jane/x.ipynb")
    assert one.read() == NOTEBOOK
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", path]


def test_a_member_without_a_name_is_passed_over(tmp_path):
    path = write(tmp_path, "week4.zip", content=zipped("..", "/", "jane.ipynb"))
    assert learners(path) == ["jane"]


# names


def test_a_name_that_is_no_text_becomes_text(tmp_path):
    raw = os.fsencode(tmp_path / "week4") + b"/\xff\n<b>"
    os.makedirs(raw)
    Path(os.fsdecode(raw + b"/\xfe.ipynb")).write_bytes(NOTEBOOK)
    (one,) = collect([tmp_path / "week4"])
    assert one.learner == "\ufffd\n<b>"
    assert one.source == "\ufffd\n<b>/\ufffd.ipynb"
    assert one.read() == NOTEBOOK


def test_a_name_of_blanks_is_still_a_name(tmp_path):
    write(tmp_path, " /04.ipynb")
    assert learners(tmp_path) == ["unnamed"]


def test_a_name_in_utf_8_is_read_where_a_zip_file_does_not_say_so(tmp_path):
    # macOS packs so: a name of the same length, and bytes that are no ASCII
    content = zipped("M__ller/04.ipynb").replace(b"M__ller", "Müller".encode())
    path = write(tmp_path, "week4.zip", content=content)
    assert learners(path) == ["Müller"]
