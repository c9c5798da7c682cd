"""Shared fixtures: nothing may be left of a launch, and machines of virtual GPUs."""

import functools
import sys

import pytest

from course_lib.system import linux
from tests import changed, fault_table
from tests.changed import pytest_addoption  # noqa: F401
from tests.leftovers import Leftovers, becomes

# notebooks with stubs, which tests/test_handed_out.py fills
collect_ignore = ["handed_out"]


def pytest_configure():
    """Make orphans of the tests visible: they become children of this process."""
    if sys.platform == "linux":
        linux.adopt_orphans()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Note every fault of the table before some are deselected; then choose."""
    fault_table.collect(config, items)
    changed.choose(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Take in what a worker has to say at its end."""
    fault_table.receive(node.config, getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter, config):
    """Say how many rows of the fault table passed."""
    for line in fault_table.summary(config, terminalreporter.stats):
        terminalreporter.write_line(line)


@pytest.fixture
def nothing_left():
    """After the test no process, file or listening socket of it may be there."""
    left = Leftovers()

    def clean():
        return not left.found()

    yield clean
    # a server whose notebook was killed sees it once it has imported torch
    assert becomes(clean), left.found()


@pytest.fixture
def virtual(monkeypatch):
    """`devices`, but virtual GPUs where there are real ones, too, and all are empty."""
    import torch

    from course_lib.accelerators.selection import devices
    from course_lib.accelerators.virtual import machine

    # what a test that failed keeps alive stays with the devices of that test
    before, machine.places = machine.places, []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    yield functools.partial(devices, quiet=True)
    # those that can still be named are there: a profiler asks the first one
    machine.places = before + machine.places[len(before) :]


@pytest.fixture
def devs(virtual):
    """Three virtual GPUs, each with the memory of an A100."""
    return virtual(3)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, for the tests of one file."""
    from tests.browser import chromium

    with chromium() as browser:
        yield browser
