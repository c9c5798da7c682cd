"""What the faults share: a kernel for each module, and a look at what is left."""

import pytest

from tests.faults.cells import launches, opened


@pytest.fixture(scope="module")
def kernel():
    kernel = opened()
    assert launches(kernel)  # its server has started
    yield kernel
    kernel.close()


@pytest.fixture(autouse=True)
def clean(nothing_left):
    return nothing_left
