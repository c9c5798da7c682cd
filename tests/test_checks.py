"""Every check meets right answers and wrong ones, put into the exercise notebooks.

An answer is a file in `right/` or `wrong/`. A wrong one says at its head which hint it
must get; `# same as: other.py` marks the same mistake in another dress, `# slow` ranks
that wait for each other until their time is up. The grader runs them as it runs what
learners hand in.
"""

import itertools
import json
import re
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from course_lib.exercises import exercises
from course_lib.grading import grades, jail
from course_lib.grading.assignment import load
from course_lib.grading.grader import Grader, Options
from course_lib.grading.warm import Template
from tests.grading import Handed
from tests.kernels import Kernel, error, shown
from tests.leftovers import becomes, descendants

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parent / "exercises").glob("*.ipynb"))
RIGHT, WRONG = (sorted(HERE.glob(f"{kind}/*/*.py")) for kind in ("right", "wrong"))
HURRIED = 12  # seconds for the same where others compute beside it
SHORT = 6  # seconds for ranks that would wait until the usual limit


def header(path, name):
    """What a line at the head of an answer says, or None."""
    found = re.search(rf"^# {name}:? ?(.*)$", path.read_text(), re.MULTILINE)
    return found and found[1]


def hint_of(path):
    """Words of the hint that a wrong answer must get."""
    found = header(path, "hint")
    assert found, (
        f"{place(path)} has no line `# hint: `; write one at its head, with words of"
        " the hint that the check gives"
    )
    return found


def place(path):
    """Where an answer is, as a message names it."""
    return path.relative_to(HERE.parent)


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


def answer_cell(exercise):
    """The id of the cell with the answer to an exercise."""
    return check_cell(exercise).replace("check", "answer", 1)


def notebook_of(exercise):
    found = [one for one in NOTEBOOKS if check_cell(exercise) in cells(one)]
    assert found, (
        f"no notebook in exercises/ has the check of {exercise}; make it with:"
        " .venv/bin/python -m course_lib release"
    )
    return found[0]


class Desk:
    """A kernel with one notebook open in it, all given cells run."""

    def __init__(self, notebook, progress):
        self.cells, self.kernel = cells(notebook), Kernel()
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
    """Grades answer files ahead of the tests, as learners who hand in one of each."""

    def __init__(self, graders, paths):
        self.graders, self.tasks = graders, {path: Future() for path in paths}
        self.pool = ThreadPoolExecutor(5)  # most checks wait half of their time
        for handed in self._learners():
            self.pool.submit(self._grade, handed)

    def _learners(self):
        """Sets of answers, each to one notebook and with at most one per exercise."""
        queues = {}
        for path in self.tasks:
            queues.setdefault(path.parent.name, []).append(path)
        for notebook in NOTEBOOKS:
            mine = [queues.get(exercise, []) for exercise in exercises_of(notebook)]
            for several in itertools.zip_longest(*mine):
                yield [path for path in several if path]

    def _grade(self, paths):
        waits = [path for path in paths if header(path, "slow") is not None]
        if waits and len(paths) > 1:  # one that waits has a notebook of its own
            for path in paths:
                self._grade([path])
            return
        try:
            kind = "hurried" if waits else "usual"
            found = self.graders[kind].grade(handed_in(paths))
            assert found.status == grades.GRADED, found
            tasks = {task.id: task for task in found.tasks}
            for path in paths:
                self.tasks[path].set_result(tasks[path.parent.name])
        except BaseException as error:  # the tests of these files raise it
            for path in paths:
                self.tasks[path].set_exception(error)

    def __call__(self, path):
        """The task of this answer."""
        notebook_of(path.parent.name)  # without one nobody grades it
        if path not in self.tasks:  # its own test was not chosen
            self.tasks[path] = Future()
            self._grade([path])
        return self.tasks[path].result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)


def exercises_of(notebook):
    """The exercises of a notebook, in order."""
    checks = [name for name in cells(notebook) if name.startswith("check-")]
    return [name.removeprefix("check-").replace("-", ".") for name in checks]


def handed_in(paths):
    """The exercise notebook with these answers in it; the others are stubs."""
    notebook = notebook_of(paths[0].parent.name)
    content = json.loads(notebook.read_text(encoding="utf-8"))
    answers = {answer_cell(path.parent.name): path.read_text() for path in paths}
    for cell in content["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return Handed(json.dumps(content).encode(), ", ".join(map(str, paths)))


@pytest.fixture(scope="module")
def graders(tmp_path_factory):
    """Graders: the usual one, one with canaries, one with little time for launches."""
    hurried = tmp_path_factory.mktemp("hurried")
    for notebook in NOTEBOOKS:
        source = notebook.read_text(encoding="utf-8")
        calls = re.sub(r"(cl\.check\([^)]+)\)", rf"\1, timeout={HURRIED})", source)
        (hurried / notebook.name).write_text(calls)
    template, here = Template(), HERE.parent / "exercises"
    kinds = {
        "usual": (here, False),
        "canary": (here, True),
        "hurried": (hurried, False),
    }
    made = {}
    for kind, (folder, canary) in kinds.items():
        options = Options(sandbox=not jail.missing(), canary=canary)
        made[kind] = Grader(load(folder), options, template=template)
    yield made
    for grader in made.values():
        grader.close()
    template.close()


@pytest.fixture(scope="module")
def answered(graders, request):
    """The task that an answer file gets."""
    here = [item for item in request.session.items if item.path == request.path]
    given = [item.callspec.params for item in here if hasattr(item, "callspec")]
    paths = dict.fromkeys(one["path"] for one in given if "path" in one)
    examination = Examination(graders, paths)
    yield examination
    examination.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", RIGHT, ids=names(RIGHT))
def test_a_right_answer_gets_all_points(answered, path):
    task = answered(path)
    assert task.outcome == grades.RIGHT, (
        f"the check does not find {place(path)} right ({task.outcome}), it said:"
        f" {task.message} {task.hint}"
    )
    assert f"✓ {path.parent.name} right" in task.message
    assert task.points == task.max_points > 0


# where there are two, `cl.devices` takes them: these run the same checks by name
@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("exercise", [e for e in exercises() if e[0] in "123"])
def test_the_checks_of_devices_accept_right_answers_on_real_gpus(answered, exercise):
    path = next(path for path in RIGHT if path.parent.name == exercise)
    assert answered(path).outcome == grades.RIGHT, answered(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", WRONG, ids=names(WRONG))
def test_a_wrong_answer_gets_no_points_and_its_hint(answered, path):
    task = answered(path)
    said = task.message
    wanted = hint_of(path)
    assert task.outcome == grades.NOT_YET and task.points == 0, (
        f"the check does not find {place(path)} wrong ({task.outcome}), it said: {said}"
    )
    assert said.startswith(f"✗ {path.parent.name} not yet"), said
    assert wanted in words(task.hint), (
        f"{place(path)} gets the hint {words(task.hint)!r}, and the words after"
        f" `# hint: ` at its head are {wanted!r}; change one of them"
    )
    assert "site-packages" not in said and "course_lib/" not in said, said


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises())
def test_each_mistake_has_a_hint_of_its_own(answered, exercise):
    paths = [path for path in WRONG if path.parent.name == exercise]
    mistake = {path: header(path, "same as") or path.name for path in paths}
    said = {path: words(answered(path).message + answered(path).hint) for path in paths}
    for path in paths:
        others = [other for other in paths if mistake[other] != mistake[path]]
        shared = [p.name for p in others if hint_of(path) in said[p]]
        assert not shared, (
            f"the hint of {place(path)} is also what {', '.join(shared)} gets. Let the"
            " check give each mistake a hint of its own. If both make the same"
            f" mistake, write `# same as: {path.name}` below the hint of the other"
        )


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_exercise_as_shipped_is_not_started(graders, notebook):
    found = graders["usual"].grade(Handed(notebook.read_bytes()))
    assert found.points == 0 and not found.repairs
    assert {task.outcome for task in found.tasks} == {grades.NOT_STARTED}
    stages = [task.message.split()[:2] for task in found.tasks]
    assert stages == [["○", exercise] for exercise in exercises_of(notebook)]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solution_gets_all_points_and_no_check_is_vacuous(
    graders, notebook, record_property
):
    solution = HERE.parent / "solutions" / notebook.name
    found = graders["canary"].grade(Handed(solution.read_bytes()))
    lost = [f"{t.id}: {t.message}" for t in found.tasks if t.outcome != grades.RIGHT]
    assert not lost, f"solutions/{notebook.name} does not pass {'; '.join(lost)}"
    assert found.points == found.max_points > 0 and not found.repairs
    # with canaries, each of which must fail
    assert found.status == grades.GRADED
    ids = [task.id for task in found.tasks]
    right, wrong = (
        sum(path.parent.name in ids for path in paths) for paths in (RIGHT, WRONG)
    )
    record_property(
        "summary",
        f"graded {notebook.stem}: solution {found.points:g} of {found.max_points:g}"
        f" points, {len(ids)} canaries failed as they must; tests of {right} right"
        f" answers with all points, {wrong} wrong ones with none and a hint",
    )


@pytest.mark.parametrize("exercise", exercises())
def test_every_check_meets_enough_answers(exercise):
    right = [path for path in RIGHT if path.parent.name == exercise]
    wrong = [path for path in WRONG if path.parent.name == exercise]
    assert len(right) >= 2, (
        f"tests/right/{exercise} holds {len(right)} answer{'s' * (len(right) != 1)}, at"
        " least 2 are needed"
    )
    mistakes = {hint_of(path) for path in wrong}
    assert len(mistakes) >= 3, (
        f"tests/wrong/{exercise} holds answers with {len(mistakes)} different hints, at"
        " least 3 are needed"
    )


@pytest.mark.parametrize("exercise", sorted({p.parent.name for p in RIGHT + WRONG}))
def test_answers_are_to_an_exercise_that_there_is(exercise):
    assert exercise in exercises(), (
        f"tests/ has answers to {exercise}, and EXERCISES in the __init__.py of its"
        f' stage, in course_lib/checks/, has no Exercise("{exercise}", ...): add one'
    )


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
