"""Errors name the learner's line and fold the rest."""

import linecache
import multiprocessing.process
import re
import sys
import sysconfig

import pytest

from course_lib import errors, stacks
from course_lib.errors import LaunchError, UsageError
from course_lib.launching.rank_process import _inner
from course_lib.stacks import Frame, is_learners, source, whereabouts
from tests.kernels import Kernel, error

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


@pytest.fixture(scope="module")
def kernel():
    """A notebook that shows errors as the course does."""
    kernel = Kernel()
    kernel.run("import json, course_lib")
    # a kernel of these tests may have it imported already
    kernel.run("from course_lib import cells; cells.follow_cells()")
    yield kernel
    kernel.close()


READ = """def read(text):
    return json.loads(text)

{}"""


def test_an_error_in_a_library_shows_the_learners_lines(kernel):
    said = error(kernel.run(READ.format("read('x')")))
    assert "----> 4 read('x')" in said and "----> 2     return json.loads(text)" in said
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0)" in said
    assert said.endswith(
        "(3 more in libraries, the last in raw_decode, decoder.py:"
        f"{re.findall(r'decoder.py:([0-9]+)', said)[0]})\nThe whole traceback: %tb"
    )
    assert "def raw_decode" not in said and "json/__init__.py" not in said
    whole = error(kernel.run("%tb"))
    assert "json/__init__.py" in whole and "raw_decode" in whole


def test_an_error_in_the_learners_own_lines_is_shown_as_ever(kernel):
    said = error(kernel.run("def half(x):\n    return x / 0\n\nhalf(1)"))
    assert "----> 4 half(1)" in said and "----> 2     return x / 0" in said
    assert said.endswith("ZeroDivisionError: division by zero")


def test_each_error_of_a_chain_is_folded(kernel):
    code = "try:\n    read('x')\nexcept ValueError as error:\n    raise {}"
    for end, link in (
        ("KeyError('y') from error", "was the direct cause of"),
        ("KeyError('y')", "During handling of"),
        ("KeyError('y') from None", ""),
    ):
        said = error(kernel.run(READ.format(code.format(end))))
        assert "decoder.py" not in said
        assert ("----> 2     return json.loads(text)" in said) is bool(link)
        assert link in said and "KeyError: 'y'" in said


def test_a_function_that_calls_itself_is_shown_once(kernel):
    code = "def again(n):\n    return again(n - 1) if n else 1 / n\n\nagain(30)"
    said = error(kernel.run(code))
    assert said.count("----> 2     return again(n - 1)") == 1
    # the cell's own line, and once that of the function
    assert "(30 lines shown above left out)" in said


def test_an_interrupted_cell_shows_the_learners_line(kernel):
    code = "import os, signal\ndef stop(_):\n    signal.raise_signal(2)\n"
    run = "json.loads('{}', object_hook=stop)"
    said = error(kernel.run(code + run))
    assert "KeyboardInterrupt" in said and run in said and "decoder.py" not in said


def test_what_cannot_be_folded_is_shown_as_ever(kernel):
    assert "SyntaxError" in error(kernel.run("json.loads("))
    assert "No module named" in error(kernel.run("import no_such_module"))
    said = error(kernel.run("exec('json.loads(3)', globals())"))
    assert "the JSON object must be str" in said
