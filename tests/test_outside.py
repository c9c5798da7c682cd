"""Programs as others write them run in ranks as they are, from a notebook's cell.

Each file in `tests/outside/` is a cell that compares its numbers with plain training.
"""

import importlib.util
from pathlib import Path

import pytest

from tests.kernels import Kernel, error

PROGRAMS = sorted((Path(__file__).parent / "outside").glob("*.py"))
NEEDS = {"accelerated": "accelerate", "fabric": "lightning"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(cwd=str(tmp_path_factory.mktemp("outside")))
    yield kernel
    kernel.close()


@pytest.mark.parametrize("program", [pytest.param(p, id=p.stem) for p in PROGRAMS])
def test_a_program_runs_as_it_is(kernel, nothing_left, program):
    library = NEEDS.get(program.stem)
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    messages = kernel.run(program.read_text(encoding="utf-8"))
    assert error(messages) is None, error(messages)
