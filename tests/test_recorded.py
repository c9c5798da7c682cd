"""Recorded outputs of nvidia-smi and nccl: whence, and that nothing was garbled."""

import re

import pytest

from course_lib.workspace.clone import course
from tests.layers import ROOT

FILES = sorted((ROOT / "notebooks/recorded").glob("*.txt"))
MEANINGS = r"X|SYS|NODE|PHB|PXB|PIX|NV\d+"


def matrices(path):
    """The rows of each matrix of a file, as lists of words."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [
        [line.split() for line in block.splitlines() if not line.startswith("#")]
        for block in blocks
    ]


def test_learners_get_them():
    handed_out = course(ROOT)
    assert len(FILES) == 5
    assert {path.relative_to(ROOT).as_posix() for path in FILES} <= handed_out.keys()


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if not path.stem.startswith("nccl")],
    ids=lambda path: path.stem,
)
def test_each_is_short_and_says_its_source_and_its_command(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# source: ") and len(lines) <= 25
    text = "\n".join(lines)
    sources = re.findall(r"^# source: .*(?:\n# [^c].*)*", text, re.M)
    assert all("github.com/" in source for source in sources)
    assert text.count("# command: nvidia-smi") == len(sources)


@pytest.mark.parametrize("name", ["topo_nvlink", "topo_pcie"])
def test_a_matrix_has_a_way_from_each_gpu_to_each_device_and_the_same_back(name):
    for head, *rows in matrices(ROOT / f"notebooks/recorded/{name}.txt"):
        devices = [word for word in head if re.match(r"GPU\d|NIC\d", word)]
        gpus = [row[0] for row in rows]
        assert gpus == devices[: len(rows)]
        ways = [row[1 : 1 + len(devices)] for row in rows]
        assert all(re.fullmatch(MEANINGS, way) for row in ways for way in row)
        square = [row[: len(gpus)] for row in ways]
        assert square == [list(column) for column in zip(*square)]
        assert [row[i] for i, row in enumerate(square)] == ["X"] * len(gpus)


@pytest.mark.parametrize("name", ["nccl_watchdog", "nccl_flight_recorder"])
def test_what_nccl_said_is_short_and_says_its_machine_and_versions(name):
    path = ROOT / f"notebooks/recorded/{name}.txt"
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    assert re.match(
        r"# source: one NVIDIA \w+, PyTorch [\d.]+, NCCL [\d.]+, \d{4}-", first
    )
    assert len(lines) <= 25
