"""The first aid of docs/faults.md: its words are those of real runs.

Programs in `first_aid/errors` end with an error, those in `hangs` stand still, those in
`numbers` compare a wrong number with the right one. Each says in its first lines how it
is run, and which words of the page it is for.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests import pages, ports
from tests.commands import Python
from tests.kernels import Kernel, error, shown

PAGE = pages.ROOT / "docs" / "faults.md"
TEXT = PAGE.read_text(encoding="utf-8")
FOLDER = Path(__file__).parent / "first_aid"
RANKS = 2
PRELUDE = """
import contextlib, copy, functools, os, sys, warnings
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grad_norm_
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
def linear(*size, **options):
    torch.manual_seed(1)
    return nn.Linear(*size, **options)
seen = [None] * world_size
"""
# who ends while the other still connects or reads takes the connection with it
TOGETHER = """
import time
open(f"ended-{rank}", "w").close()
for _ in range(3000):
    if os.path.exists(f"ended-{1 - rank}"):
        break
    time.sleep(0.01)
"""
# the page's own function, which tells whether ranks have drifted apart
(SAME,) = [code for code in pages.code(PAGE, "python") if "same_on_all_ranks" in code]

CELL = """
import time, course_lib as cl, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""


def rows(title):
    """The rows of all tables under a heading of the page and its smaller ones."""
    level = title.partition(" ")[0]
    (part,) = re.findall(
        rf"^{title}\n(.*?)(?=^#{{1,{len(level)}}} )", TEXT, re.M | re.S
    )
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    split = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in lines]
    return [row for row in split if row[0] != "what you see"]


def programs(kind):
    """The programs of a folder, for a parametrized test."""
    paths = sorted((FOLDER / kind).glob("*.py"))
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def ran(code, folder, ranks=RANKS):
    """Exit codes and outputs of ranks, which are plain processes."""
    shared = os.environ | {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.free())}
    shared |= {"OMP_NUM_THREADS": "1"}
    each = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    started = [Python(code, cwd=folder, env=shared | own) for own in each]
    try:
        outputs = ["".join(process.communicate(100)) for process in started]
    finally:
        for process in started:
            process.send_signal(9)
    return [process.poll() for process in started], outputs


@pytest.mark.proof
@programs("numbers")
def test_a_wrong_number_is_shown_beside_the_right_one(path, tmp_path, nothing_left):
    codes, outputs = ran(PRELUDE + SAME + path.read_text() + TOGETHER, tmp_path)
    assert codes == [0] * RANKS, outputs


def header(path, name):
    """What the first lines of a program say under a name."""
    return re.findall(rf"^# {name}: (.+)$", path.read_text(encoding="utf-8"), re.M)


def says(path):
    """The words of a program; what another build of PyTorch says in their place."""
    return [words.split(" | ") for words in header(path, "says")]


def by_ranks(path, folder):
    return "".join(ran(path.read_text(), folder)[1])


def by_python(path, folder):
    outside = {k: v for k, v in os.environ.items() if not k.endswith(("RANK", "SIZE"))}
    process = Python(path.read_text(), cwd=folder, env=outside)
    try:
        return "".join(process.communicate(100))
    finally:
        process.send_signal(9)


def by_file(path, folder, command=()):
    variables = dict(each.split("=") for each in header(path, "with"))
    done = subprocess.run(
        [sys.executable, *command, path],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


def by_torchrun(path, folder):
    command = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={RANKS}",
    ]
    return by_file(path, folder, command)


def by_launch(path, folder):
    command = ["-m", "torch.distributed.launch", f"--nproc-per-node={RANKS}"]
    return by_file(path, folder, [*command, f"--master-port={ports.free()}"])


def by_cell(path, folder):
    with mock.patch.dict(os.environ):
        # where it is set, a kernel does not show what its child processes print
        os.environ.pop("PYTEST_CURRENT_TEST", None)
        kernel = Kernel(cwd=str(folder))
    try:
        messages = kernel.run(path.read_text())
    finally:
        kernel.close()
    return shown(messages) + (error(messages) or "")


def plain(output):
    """Numbers that change with each run become those of the page."""
    for found, told in (
        (r"\x1b\[[\d;]*m", ""),
        (r" +: ", ": "),
        (r"\b\d+ms for", "1800000ms for"),
        (r"(pid(?:\(s\))?) \d+", r"\1 4711"),
    ):
        output = re.sub(found, told, output)
    return output


@pytest.mark.proof
@programs("errors")
def test_a_program_says_the_words_of_the_page(path, tmp_path, nothing_left):
    (way,) = header(path, "run by")
    output = plain(globals()[f"by_{way}"](path, tmp_path))
    missing = [words for words in says(path) if not any(map(output.count, words))]
    assert not missing, output


@pytest.mark.proof
def test_torchrun_gives_a_script_no_arguments_of_its_own(tmp_path, nothing_left):
    output = by_torchrun(FOLDER / "errors" / "local_rank.py", tmp_path)
    assert all(output.count(f"goes on with {rank}") for rank in range(RANKS)), output


@pytest.mark.proof
@programs("hangs")
def test_a_run_that_hangs_is_seen_as_the_page_says(path, tmp_path, kernel):
    messages = kernel.run(path.read_text())
    text = error(messages)
    missing = [words for words in header(path, "says") if words not in text]
    assert not missing, text


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(cwd=str(tmp_path_factory.mktemp("hangs")))
    kernel.run(CELL)
    yield kernel
    kernel.close()


ERRORS, NUMBERS = "## It ends with an error", "## It runs, but the numbers are wrong"
RECORDED = pages.ROOT / "benchmarks/gpu/recorded/H200.json"
SEARCHED = TEXT.replace("`", "")  # what Ctrl-F sees


def quoted():
    """Each text of an error on the page; those marked as not run are left out."""
    words = re.findall("`([^`]+)`(¹?)", "\n".join(row[0] for row in rows(ERRORS)))
    return [one.partition("…")[0] for one, mark in words if not mark]


def test_each_error_of_the_page_is_the_text_of_a_run():
    paths = [*(FOLDER / "errors").glob("*.py")]
    told = [words for path in paths for each in says(path) for words in each]
    # nccl's, and those of GPUs, were recorded on an H200
    told.append(RECORDED.read_text())
    code = "\n".join(path.read_text() for path in paths)
    for words in quoted():
        named = re.fullmatch(r"[\w.()]+", words) and words in code
        assert named or any(words in one for one in told), words
    assert len(quoted()) > 40


@pytest.mark.parametrize("kind", ["errors", "hangs"])
def test_the_words_of_each_program_can_be_searched_on_the_page(kind):
    for path in (FOLDER / kind).glob("*.py"):
        for words in sum(says(path), []):
            what = words.removeprefix("waits in ")
            assert what in SEARCHED, (path.name, words)


def test_each_row_of_wrong_numbers_has_a_program_with_its_line():
    sources = [path.read_text() for path in (FOLDER / "numbers").glob("*.py")]
    codes = {source.partition("\n")[0]: source for source in sources}
    table = {f"# {row[0]}": row for row in rows(NUMBERS)}
    assert codes.keys() == table.keys()
    for title, (_, sure, _, _) in table.items():
        (line,) = re.findall("`([^`]+)`", sure)[:1]
        assert line in codes[title], title


def test_the_cells_to_which_wrong_numbers_lead_are_there():
    for *_, where in rows(NUMBERS):
        for file, heading in re.findall(r"\]\((.+?)\), \*(.+)\*", where):
            texts = pages.texts((PAGE.parent / file).resolve())
            assert any(f"## {heading}\n" in f"{text}\n" for text in texts), heading
