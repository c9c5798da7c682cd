"""Errors name the learner's line and fold the rest."""

import linecache
import multiprocessing.process
import sys
import sysconfig

import pytest

from course_lib import errors, stacks
from course_lib.errors import LaunchError, UsageError
from course_lib.launching.rank_process import _inner
from course_lib.stacks import Frame, is_learners, source, whereabouts

LIBRARY = sysconfig.get_path("purelib") + "/torch/nn/functional.py"


def cell(name, text):
    lines = [line + "\n" for line in text.split("\n")]
    linecache.cache[name] = (len(text), None, lines, name)


def test_a_notebook_shows_the_message_alone():
    shown = UsageError("give a number\nlike 3")._render_traceback_()
    assert len(shown) == 2
    assert "give a number" in shown[0] and shown[1] == "like 3"


def test_errors_can_be_caught_by_the_usual_classes():
    assert issubclass(UsageError, ValueError)
    assert issubclass(LaunchError, RuntimeError)
    assert issubclass(errors.LaunchTimeout, TimeoutError)
    assert issubclass(errors.LaunchInterrupted, KeyboardInterrupt)


def test_installed_code_is_not_the_learners():
    assert not is_learners(Frame(LIBRARY, 1, "linear"))
    assert not is_learners(Frame(errors.__file__, 1, "place"))
    assert not is_learners(Frame(linecache.__file__, 1, "getline"))
    assert not is_learners(Frame("/opt/torch/lib/site-packages/torch/x.py", 1, "f"))
    assert not is_learners(Frame("/usr/lib/python3/dist-packages/numpy/x.py", 1, "f"))
    assert is_learners(Frame("/tmp/ipykernel_7/1234.py", 1, "train"))
    assert is_learners(Frame("/home/ada/train.py", 1, "train"))


def test_the_line_is_marked_between_its_neighbours():
    cell("<cell>", "a = 1\nb = 0\nc = a / b\nd = 4")
    assert source(Frame("<cell>", 3, "f")) == [
        "        2  b = 0",
        "  -->   3  c = a / b",
        "        4  d = 4",
    ]


def test_library_frames_are_counted():
    cell("<cell>", "loss(x)")
    frames = [
        Frame("<cell>", 1, "train"),
        Frame(LIBRARY, 5, "linear"),
        Frame(LIBRARY, 9, "addmm"),
    ]
    folded = "  (2 more in libraries, the last in addmm, functional.py:9)"
    assert stacks.show_folded(frames) == folded
    assert not any("functional" in line for line in stacks.show_stack(frames))


def test_where_a_rank_is_fits_one_line():
    cell("<cell>", "x = 1\ndist.all_reduce(x)")
    frames = [Frame("<cell>", 2, "train"), Frame(LIBRARY, 9, "wait")]
    assert whereabouts(frames) == "<cell>, line 2, in train: dist.all_reduce(x)"


def test_a_missing_source_leaves_the_place():
    assert whereabouts([Frame("gone.py", 2, "train")]) == "gone.py, line 2, in train"


DUMP = f"""Thread 0x00007f01 (most recent call first):
  File "{linecache.__file__}", line 324 in wait
  File "{LIBRARY}", line 12 in run

Current thread 0x00007f02 (most recent call first):
  File "{LIBRARY}", line 3252 in all_reduce
  File "/tmp/ipykernel_7/1234.py", line 6 in train
  File "{errors.__file__}", line 99 in main
  File "<string>", line 1 in <module>
"""


def test_a_dump_of_stacks_is_read_outermost_first():
    found = stacks.main_stack(stacks.parse_dump(DUMP))
    assert [frame.function for frame in found] == ["train", "all_reduce"]
    assert found[0] == Frame("/tmp/ipykernel_7/1234.py", 6, "train")


def test_a_dump_without_a_line_of_the_learner_is_still_read():
    first = stacks.parse_dump(DUMP.split("\n\n")[0])
    assert stacks.main_stack(first)[-1].function == "wait"
    assert stacks.main_stack(stacks.parse_dump("")) == []


def test_a_forked_process_is_told_without_the_frames_of_its_parent():
    process = multiprocessing.process.__file__
    parent = [Frame("cell.py", 5, "train"), Frame(process, 1, "start")]
    started = [
        Frame(process, 2, "_bootstrap"),
        Frame("cell.py", 9, "add"),
    ]
    assert stacks.of_child([parent + started]) == started[1:]
    assert stacks.of_child([parent]) == parent


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
def test_notes_and_the_errors_of_a_group_belong_to_an_error():
    first, second = ValueError("one"), KeyError("two")
    second.add_note("look here")
    group = ExceptionGroup("both", [first, second])  # noqa: F821
    lines = "\n".join(_inner(group)).split("\n")
    assert lines == ["  ValueError: one", "  KeyError: 'two'", "  look here"]
    assert _inner(first) == []
