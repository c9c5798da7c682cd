"""Another torch, a broken one or none: one sentence, no traceback of torch."""

import importlib.metadata
import subprocess
import sys

import pytest

from course_lib.errors import TorchError, UsageError
from course_lib.system import torch_versions
from tests.layers import ROOT

RANGE = torch_versions.Range((2, 11), (2, 16))
LINES = ["numpy>=2.2", "torch<2.16,>=2.11", 'torch-x>=1,<2; extra == "test"']


@pytest.fixture
def known(monkeypatch):
    """The range of a course that runs with torch 2.11 to 2.15."""
    monkeypatch.setattr(torch_versions, "supported", lambda: RANGE)


@pytest.mark.parametrize(
    "lines",
    [LINES, LINES[::-1], ["torch (>=2.11, <2.16)"], ["torch>=2.11,!=2.12.1,<2.16"]],
)
def test_the_range_is_read_from_what_the_package_requires(lines):
    assert torch_versions.parse_range(lines) == RANGE
    assert RANGE.requirement == "torch>=2.11,<2.16" and RANGE.words == "2.11 to 2.15"


@pytest.mark.parametrize(
    "lines", [[], ["torch"], ["torch>=2.11"], ["torchvision>=1,<2"]]
)
def test_a_range_without_both_ends_is_none(lines):
    assert torch_versions.parse_range(lines) is None


def test_a_range_of_one_minor_version_is_named_once():
    assert torch_versions.Range((2, 13), (2, 14)).words == "2.13"


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [
        ("2.10.3+cu128", True, False),
        ("1.13.1", True, False),
        ("2.11.0", False, False),
        ("2.11.0a0+5228986c39.nv25.10", False, False),  # as NVIDIA's containers have it
        ("2.15.9+cu132", False, False),
        ("2.16.0", False, True),
        ("2.16.0.dev20270101", False, True),
        ("3.0.0", False, True),
    ],
)
def test_a_version_is_old_or_new_by_its_numbers_alone(version, old, new):
    assert (RANGE.is_old(version), RANGE.is_new(version)) == (old, new)


def test_the_course_that_runs_here_says_its_range():
    found = torch_versions.supported()
    assert f'"{found.requirement}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def absent(name):
    raise importlib.metadata.PackageNotFoundError(name)


def test_without_metadata_the_project_file_says_the_range(monkeypatch):
    found = torch_versions.supported()
    monkeypatch.setattr(importlib.metadata, "requires", absent)
    assert torch_versions.supported() == found


def test_where_nothing_says_the_range_it_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.metadata, "requires", absent)
    monkeypatch.setattr(torch_versions, "_PYPROJECT", tmp_path / "pyproject.toml")
    assert torch_versions.supported() is None
    assert torch_versions.needs() == "torch"
    assert torch_versions.install() == "make setup"


def test_an_error_of_the_course_keeps_its_words(known):
    with pytest.raises(UsageError, match="^give more$"), torch_versions.explained():
        raise UsageError("give more")


def test_an_error_beside_a_good_torch_that_is_not_its_own_stays(monkeypatch):
    with pytest.raises(ImportError, match="no_such_module"), torch_versions.explained():
        import no_such_module  # noqa: F401


def test_a_private_part_that_is_gone_is_one_sentence(known, monkeypatch):
    import torch

    monkeypatch.setattr(torch, "__version__", "2.16.1")
    with pytest.raises(TorchError) as caught, torch_versions.explained():
        _ = torch.utils._private_part_that_is_gone
    assert str(caught.value) == (
        "torch 2.16.1 lacks what the course uses of it (module 'torch.utils' has no"
        " attribute '_private_part_that_is_gone'). The course runs with torch 2.11 to"
        ' 2.15: pip install "torch>=2.11,<2.16"; cl.doctor() says more.'
    )
    assert caught.value.__suppress_context__


# --- in a process of its own

LOSE = """
import torch.utils.backend_registration as home
import torch.fx.experimental.proxy_tensor
del home._setup_privateuseone_for_python_backend
torch.__version__ = "2.3.0"
"""
# as a notebook has it: the face starts the fork server when it is imported
NOTEBOOK = """
import IPython
from types import SimpleNamespace
IPython.get_ipython = lambda: SimpleNamespace(kernel=1, set_custom_exc=lambda *_: None)
"""


def last_line(code):
    """The last line that a new Python prints, on either stream."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_devices_with_a_torch_that_lacks_a_private_part_are_one_sentence():
    line = last_line(f"{LOSE}\nimport course_lib as cl\ncl.devices(2)")
    assert line.startswith(
        "course_lib.errors.TorchError: torch 2.3.0 lacks what the course uses of it"
        " (cannot import name '_setup_privateuseone_for_python_backend'"
    )
    assert line.endswith(f"{torch_versions.install()}; cl.doctor() says more.")


@pytest.mark.parametrize(
    ("before", "name"), [("", "devices"), (NOTEBOOK, "launch")], ids=["", "notebook"]
)
def test_without_torch_each_name_that_needs_it_is_one_sentence(before, name):
    code = f"import sys\n{before}\nsys.modules['torch'] = None\n"
    assert last_line(f"{code}\nimport course_lib as cl\ncl.{name}") == (
        "course_lib.errors.TorchError: PyTorch cannot be imported (import of torch"
        f" halted; None in sys.modules). The course needs {torch_versions.needs()}:"
        f" {torch_versions.install()}; cl.doctor() says more."
    )


def test_without_torch_the_doctor_runs_in_a_notebook():
    code = f"import sys\n{NOTEBOOK}\nsys.modules['torch'] = None\n"
    line = last_line(f"{code}\nimport course_lib as cl\nprint(cl.doctor())")
    assert line == "Necessary and missing: torch, gloo."
