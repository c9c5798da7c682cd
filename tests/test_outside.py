"""Programs as others write them run in ranks as they are, from a notebook's cell.

Each file in `tests/outside/` is a cell that compares its numbers with plain training.
"""

from pathlib import Path

import pytest

from tests import lacks
from tests.kernels import Kernel, error

PROGRAMS = sorted((Path(__file__).parent / "outside").glob("*.py"))
NEEDS = {"accelerated": "accelerate", "fabric": "lightning"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(cwd=str(tmp_path_factory.mktemp("outside")))
    yield kernel
    kernel.close()


def case(program):
    marks = [lacks.needs(NEEDS[program.stem])] if program.stem in NEEDS else []
    return pytest.param(program, id=program.stem, marks=marks)


@pytest.mark.parametrize("program", [*map(case, PROGRAMS)])
def test_a_program_runs_as_it_is(kernel, nothing_left, program):
    messages = kernel.run(program.read_text(encoding="utf-8"))
    assert error(messages) is None, error(messages)
