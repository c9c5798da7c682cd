"""Every check meets right answers and wrong ones, each in a real notebook's kernel.

An answer is a file in `right/` or `wrong/`. A wrong one says at its head which hint it
must get; `# same as: other.py` marks the same mistake in another dress, `# slow` ranks
that wait for each other until their time is up.
"""

import json
import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from course_lib.exercises import exercises
from tests.kernels import Kernel, error, shown
from tests.leftovers import becomes, descendants

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parent / "exercises").glob("*.ipynb"))
RIGHT, WRONG = (sorted(HERE.glob(f"{kind}/*/*.py")) for kind in ("right", "wrong"))
SHORT = 6  # seconds for ranks that would wait until the usual limit


def header(path, name):
    """What a line at the head of an answer says, or None."""
    found = re.search(rf"^# {name}:? ?(.*)$", path.read_text(), re.MULTILINE)
    return found and found[1]


def words(text):
    """The text in one line: a notebook breaks the lines of a message."""
    return " ".join(text.split())


def names(paths):
    return [f"{path.parent.name}-{path.stem}" for path in paths]


@cache
def cells(notebook):
    """The code cells of a notebook by id, in order."""
    every = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return {c["id"]: "".join(c["source"]) for c in every if c["cell_type"] == "code"}


def check_cell(exercise):
    """The id of the cell that checks an exercise."""
    return f"check-{exercise.replace('.', '-')}"


def notebook_of(exercise):
    return next(one for one in NOTEBOOKS if check_cell(exercise) in cells(one))


class Desk:
    """A kernel with one notebook open in it, all given cells run."""

    def __init__(self, notebook, progress):
        self.cells, self.kernel = cells(notebook), Kernel()
        self.turn = threading.Lock()  # one check at a time
        self.files = progress.parent / "files"
        self.files.mkdir()
        self.run(f"%env COURSE_LIB_PROGRESS={progress}")
        self.run(f"import tempfile; tempfile.tempdir = {str(self.files)!r}")
        for name, source in self.cells.items():
            if not name.startswith(("answer-", "check-", "summary")):
                assert error(self.run(source)) is None

    def run(self, source):
        return self.kernel.run(source, seconds=120)

    def check(self, exercise, answer, timeout=None):
        """Run `answer` as the answer cell, then its check; the message of the check."""
        call = self.cells[check_cell(exercise)]
        if timeout:
            call = call.replace(")", f", timeout={timeout})")
        with self.turn:
            said = error(self.run(answer))
            assert said is None, said
            messages = self.run(call)
        return error(messages) or shown(messages).strip()

    def is_clear(self):
        # torch makes the folder of its compiler when DDP is first used
        files = [f for f in self.files.iterdir() if "torchinductor" not in f.name]
        return not descendants(self.kernel.pid) and not files


@pytest.fixture(scope="module")
def desks(tmp_path_factory):
    """The kernel of each notebook, by exercise."""
    opened = {}

    def desk(exercise):
        notebook = notebook_of(exercise)
        if notebook not in opened:
            progress = tmp_path_factory.mktemp("desk") / "progress.jsonl"
            opened[notebook] = Desk(notebook, progress)
        return opened[notebook]

    yield desk
    clear = all(becomes(one.is_clear, seconds=5) for one in opened.values())
    for one in opened.values():
        one.kernel.close()
    assert clear


class Examination:
    """Checks answer files ahead of the tests, two notebooks side by side.

    Most checks need one core or wait; the files of a notebook take turns in its kernel.
    """

    def __init__(self, desks, paths):
        self.desks, self.said = desks, {path: Future() for path in paths}
        self.pool, self.over = ThreadPoolExecutor(2), threading.Event()
        queues = {notebook: [] for notebook in NOTEBOOKS}
        for path in paths:
            queues[notebook_of(path.parent.name)].append(path)
        for queue in queues.values():
            self.pool.submit(self._work, queue)

    def _work(self, queue):
        for path in queue:
            if not self.over.is_set():
                self._judge(path)

    def _judge(self, path):
        exercise = path.parent.name
        slow = SHORT if header(path, "slow") is not None else None
        try:
            found = self.desks(exercise).check(exercise, path.read_text(), slow)
            self.said[path].set_result(found)
        except BaseException as error:  # the test of this file raises it
            self.said[path].set_exception(error)

    def __call__(self, path):
        """What the check says of this file; each is checked once."""
        if path not in self.said:  # its own test was not chosen
            self.said[path] = Future()
            self._judge(path)
        return self.said[path].result()

    def close(self):
        self.over.set()
        self.pool.shutdown()


@pytest.fixture(scope="module")
def answered(desks, request):
    """What the check says of an answer file."""
    here = [item for item in request.session.items if item.path == request.path]
    given = [item.callspec.params for item in here if hasattr(item, "callspec")]
    paths = dict.fromkeys(one["path"] for one in given if "path" in one)
    examination = Examination(desks, paths)
    yield examination
    examination.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", RIGHT, ids=names(RIGHT))
def test_a_right_answer_is_right(answered, path):
    assert f"✓ {path.parent.name} right" in answered(path)


# where there are two, `cl.devices` takes them: these run the same checks by name
@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("exercise", [e for e in exercises() if e[0] in "123"])
def test_the_checks_of_devices_accept_right_answers_on_real_gpus(answered, exercise):
    path = next(path for path in RIGHT if path.parent.name == exercise)
    assert f"✓ {exercise} right" in answered(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", WRONG, ids=names(WRONG))
def test_a_wrong_answer_gets_its_hint(answered, path):
    said = answered(path)
    assert said.startswith(f"✗ {path.parent.name} not yet"), said
    assert header(path, "hint") in words(said.partition("Hint: ")[2]), said
    assert "site-packages" not in said and "course_lib/" not in said, said


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises())
def test_each_mistake_has_a_hint_of_its_own(answered, exercise):
    paths = [path for path in WRONG if path.parent.name == exercise]
    mistake = {path: header(path, "same as") or path.name for path in paths}
    for path in paths:
        others = [other for other in paths if mistake[other] != mistake[path]]
        shared = [p.name for p in others if header(path, "hint") in words(answered(p))]
        assert not shared, (path.name, shared)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises())
def test_a_stub_is_not_started(desks, exercise):
    stub = cells(notebook_of(exercise))[check_cell(exercise).replace("check", "answer")]
    said = desks(exercise).check(exercise, stub)
    assert said.startswith(f"○ {exercise} not started")


@pytest.mark.parametrize("exercise", exercises())
def test_every_check_meets_enough_answers(exercise):
    right = [path for path in RIGHT if path.parent.name == exercise]
    wrong = [path for path in WRONG if path.parent.name == exercise]
    assert len(right) >= 2
    assert len({header(path, "hint") for path in wrong}) >= 3


def mean_loss(line):
    """A right answer to 4.5c with one more line at its head."""
    return f"""
def mean_loss(rank, world_size, loss):
    {line}
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"mean loss {{mean.item() / world_size:.3f}}")
    return mean.item() / world_size
"""


# what an answer does beside its task, and what the check then says
FAULTS = {
    "import sys; sys.exit()": "left by sys.exit(0) before mean_loss returned",
    "import os; rank == 1 and os._exit(0)": "rank 1 of 2 ended with exit code 0",
    "import os; rank == 1 and os.kill(os.getpid(), 9)": "rank 1 of 2 was killed by SIG",
    "while rank == 1: pass": "A rank is still busy in a line of yours",
    "import threading as t; t.Timer(99, print).start()": "a thread that it started",
    "raise ValueError('oops')": "raised ValueError: oops",
    "input('go on?')": "A rank has no keyboard",
    "nn.Module()(loss)": "raised NotImplementedError: Module [Module] is missing",
    "rank == 1 and get_ipython()": "cannot send mean_loss to the ranks: `mean_loss`",
    "return float('nan')": "returned nan",
    "return lambda: 1": "expected 5.0000, the mean over all ranks",
    "return f'{loss}'": "Every rank returns the mean as a number",
}


@pytest.mark.faults
@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_told_in_one_clear_message(desks, line):
    desk = desks("4.5c")
    said = desk.check("4.5c", mean_loss(line), SHORT)
    assert said.startswith("✗ 4.5c not yet"), said
    assert FAULTS[line] in words(said)
    assert "site-packages" not in said and "course_lib/" not in said
    assert becomes(desk.is_clear, seconds=5)


@pytest.mark.faults
@pytest.mark.parametrize(
    "line",
    [
        "print('x' * 1_000_000)",
        "import warnings; warnings.warn('mind')",
        "import subprocess; subprocess.Popen(['sleep', '99'])",
        "import threading as t; t.Thread(target=input, daemon=True).start()",
        "global seen; seen = rank",
        "torch.manual_seed(rank)",
    ],
)
def test_what_is_done_beside_a_right_answer_is_no_fault(desks, line):
    desk = desks("4.5c")
    assert "✓ 4.5c right" in desk.check("4.5c", mean_loss(line))
    assert becomes(desk.is_clear, seconds=5)


# one right answer of each exercise whose check computes in the notebook's process
SETTLED = (
    "tensor",
    "other_loss_forms",
    "file_handle",
    "nullcontext",
    "gathered",
    "all_gather",
)
SETTINGS = {
    "torch.set_default_dtype(torch.float64)": "torch.set_default_dtype(torch.float32)",
    "torch.set_grad_enabled(False)": "torch.set_grad_enabled(True)",
    "torch.set_default_device('meta')": "torch.set_default_device(None)",
}


@pytest.mark.faults
def test_settings_of_the_notebook_do_not_reach_a_check(desks):
    desk = desks("4.4")
    for line in SETTINGS:
        desk.run(line)
    try:
        for path in (path for path in RIGHT if path.stem in SETTLED):
            exercise = path.parent.name
            assert f"✓ {exercise} right" in desk.check(exercise, path.read_text())
        kept = "torch.empty(1).dtype, torch.empty(1).device, torch.is_grad_enabled()"
        said = shown(desk.run(kept))
        assert "torch.float64, device(type='meta'), False" in words(said)
    finally:
        for line in SETTINGS.values():
            desk.run(line)


@pytest.mark.faults
def test_an_answer_without_end_is_wrong(desks):
    generator = """
def shard_indices(num_samples, rank, world_size):
    while True:
        yield 0
"""
    assert desks("4.1").check("4.1", generator).startswith("✗ 4.1 not yet")
