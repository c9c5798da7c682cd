"""A notebook's process computes with one thread, and a disturbed run says so."""

import sys
from unittest.mock import Mock

import pytest

from course_lib.launching import launcher
from course_lib.launching.protocol import Record
from course_lib.system import host
from tests.kernels import Kernel, shown


def record(seconds, starved):
    return Record("returned", seconds=seconds, starved=starved)


@pytest.mark.parametrize(
    ("records", "rank"),
    [
        ([record(1, 0.01), record(1, 0.1)], None),
        ([record(1, 0.01), record(1, 0.25)], 1),
        ([record(0.01, 0.005)], None),  # too short to tell
        ([record(1, 0.5)] * 3, None),  # three ranks share two cores, as they must
    ],
)
def test_a_run_says_that_other_programs_took_its_cores(monkeypatch, records, rank):
    monkeypatch.setattr(host, "usable_cores", lambda: 2)
    said = f"; disturbed: rank {rank} had no core for 25 % of its time"
    assert launcher._disturbance(records) == ("" if rank is None else said)


@pytest.mark.parametrize(
    ("asked", "threads", "kept"), [(None, [1], None), ("2", [], "2")]
)
def test_a_notebook_computes_with_one_thread_unless_asked(
    monkeypatch, asked, threads, kept
):
    set_to = []
    monkeypatch.setitem(sys.modules, "torch", Mock(set_num_threads=set_to.append))
    environ = {} if asked is None else {"OMP_NUM_THREADS": asked}
    monkeypatch.setattr(host.os, "environ", environ)
    host.use_one_thread()
    assert (set_to, environ.get("OMP_NUM_THREADS")) == (threads, kept)


def test_what_imports_torch_later_finds_one_thread(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(host.os, "environ", environ := {})
    host.use_one_thread()
    assert environ == {"OMP_NUM_THREADS": "1"}


def test_a_notebook_that_imports_the_course_computes_with_one_thread():
    kernel = Kernel()
    kernel.run("import os, torch; os.environ.pop('OMP_NUM_THREADS', None)")
    kernel.run("torch.set_num_threads(2); import course_lib")
    # a kernel of these tests may have it imported already
    kernel.run("course_lib._warm_up_in_notebook()")
    assert shown(kernel.run("torch.get_num_threads()")) == "1"
    kernel.close()
