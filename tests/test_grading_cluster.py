"""`grade --cluster ADDRESS`: the same grades from the workers of a Dask scheduler."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from course_lib.errors import UsageError
from course_lib.grading import command, grades
from course_lib.grading.notebook.assignment import load_assignments
from course_lib.grading.run.grader import GraderError, Options
from tests import grading
from tests.commands import COMMAND, Python
from tests.leftovers import Leftovers, becomes, below, lives

pytest.importorskip("distributed")
from distributed import Client
from distributed.client import FutureCancelledError

from course_lib.grading.run import cluster
from course_lib.grading.run.cluster import Cluster

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[1]
WRONG = "def square(x):\n    return 0"
# python -m distributed.cli.dask_..., whose graders are forks of it
DASK = """
from distributed.cli.dask_{} import main
from tests import forked
forked.fork_graders()
main()
"""
# says where it runs, and waits for a file
WAITS = """
open({began!r}, "w").write(str(os.getpid()))
while not os.path.exists({go!r}):
    time.sleep(0.02)"""


class Crew:
    """A scheduler and its workers, each a process of this machine."""

    def __init__(self, folder):
        self.folder, self.workers, file = folder, [], folder / "scheduler.json"
        self.exercises = grading.release(folder / "exercises")
        self.scheduler = self.start("scheduler", f"--scheduler-file={file}", "--port=0")
        # it is there before it is written
        assert becomes(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def start(self, role, *args, path=None):
        """A scheduler or a worker; one whose course is in `path` starts as a Python."""
        options = ["--host=127.0.0.1", "--no-dashboard", *args]
        env = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(self.folder)}
        if path is None:
            code = DASK.format(role)
            return Python(code, *options, cwd=self.folder, env=env)
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{role}", *options],
            cwd=self.folder,
            env={**env, "PYTHONPATH": str(path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def man(self, number):
        """Have so many workers."""
        self.workers = [one for one in self.workers if one.poll() is None]
        options = (self.address, "--no-nanny", "--nthreads=2")
        for _ in range(number - len(self.workers)):
            self.workers.append(self.start("worker", *options))
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=60)

    def worker_of(self, pid):
        above = {process.pid for process in psutil.Process(pid).parents()}
        return next(one for one in self.workers if one.pid in above)

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    left, made = Leftovers(), Crew(tmp_path_factory.mktemp("crew"))
    yield made
    made.close()
    assert becomes(lambda: not left.found()), left.found()


@pytest.fixture
def crew(everyone):
    """A crew of two; after a run its workers have no process of it left."""
    everyone.man(2)
    yield everyone
    living = [one for one in everyone.workers if one.poll() is None]
    assert becomes(lambda: not any(below(one.pid) for one in living))


def hand_in(folder, learner, **answers):
    (folder / learner).mkdir(exist_ok=True)
    data = grading.handed(**answers).read()
    (folder / learner / "small.ipynb").write_bytes(data)


def arguments(crew, handed, *more):
    given = [handed, f"--exercises={crew.exercises}", "--no-sandbox", *more]
    return [*map(str, given), f"--state={handed}/.g", f"--json={handed}/grades.json"]


def graded(crew, handed, *more):
    """Exit status, and the grades by learner."""
    status = command.main(arguments(crew, handed, *more))
    found = json.loads((handed / "grades.json").read_text())["submissions"]
    return status, {one["learner"]: {**one, "seconds": 0} for one in found}


def waiting(folder):
    """Code that waits in a cell, where it says that it began, what ends it."""
    began, go = folder / "began", folder / "go"
    return WAITS.format(began=str(began), go=str(go)), began, go


def pid_in(began):
    assert becomes(lambda: began.exists() and began.read_text())
    return int(began.read_text())


def folders(process):
    """The folder of its grader that a process works in, if it does."""
    above = Path(process.cwd(), "x").parents
    return [path for path in above if path.name.startswith("grading-")]


def graded_while_a_worker_ends(crew, handed, number):
    """The same, but the worker that grades ada's notebook is sent a signal."""
    code, began, go = waiting(handed)
    hand_in(handed, "ada", before=code)
    with ThreadPoolExecutor(1) as pool:
        ticket = pool.submit(graded, crew, handed, "--cluster", crew.address)
        worker = crew.worker_of(pid_in(began))
        theirs = below(worker.pid)
        (folder,) = {path for p in theirs for path in folders(p)}
        assert os.listdir(folder)
        worker.send_signal(number)
        assert becomes(lambda: not any(map(lives, theirs)))
        assert becomes(lambda: not os.path.exists(folder))  # its worker removes it
        go.touch()
        assert becomes(lambda: worker.poll() is not None)
        return ticket.result(timeout=300)


def test_a_killed_worker_changes_no_grade(crew, tmp_path, capfd):
    for learner, answer in zip("bcd", [WRONG, None, WRONG]):
        hand_in(tmp_path, learner, **({"square": answer} if answer else {}))
    status, found = graded_while_a_worker_ends(crew, tmp_path, signal.SIGKILL)
    assert status == 0
    points = [found[learner]["points"] for learner in ("ada", *"bcd")]
    assert points == [10, 8, 10, 8]
    assert graded(crew, tmp_path, "--cluster", crew.address) == (0, found)
    assert "4 unchanged since graded" in capfd.readouterr().err
    assert graded(crew, tmp_path, "--again") == (0, found)  # by this machine


def test_a_worker_that_is_stopped_changes_no_grade(crew, tmp_path):
    status, found = graded_while_a_worker_ends(crew, tmp_path, signal.SIGTERM)
    assert status == 0 and found["ada"]["points"] == 10


def test_an_interrupted_run_ends_its_notebooks_and_no_worker(crew, tmp_path):
    code, began, _ = waiting(tmp_path)
    hand_in(tmp_path, "ada", before=code)
    options = arguments(crew, tmp_path, "--cluster", crew.address)
    process = Python(COMMAND, "grade", *options, cwd=ROOT, env=dict(os.environ))
    kernel = psutil.Process(pid_in(began))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.poll() == 130 and "the same command goes on" in said
    assert "Traceback" not in said
    assert becomes(lambda: not lives(kernel))
    assert all(worker.poll() is None for worker in crew.workers)


def ends_its_worker(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_submission_that_always_ends_its_worker_is_no_exception(crew, monkeypatch):
    def forgive(failures, dask_scheduler):
        dask_scheduler.allowed_failures = failures

    monkeypatch.setattr(cluster, "_grade", ends_its_worker)
    with Cluster(crew.address) as place, grader(place, crew) as remote:
        place.client.run_on_scheduler(forgive, 0)
        grade = remote.grade(grading.handed())
        place.client.run_on_scheduler(forgive, 3)
    assert (grade.status, grade.learner) == (grades.FAILED, "ada")
    assert "its worker ended each time, 1 in turn, the last at tcp" in grade.message


def grader(place, crew):
    return place.grader(load_assignments(crew.exercises), Options(sandbox=False))


def test_what_cannot_be_read_is_refused_with_the_reason(crew, tmp_path):
    (tmp_path / "ada.ipynb").symlink_to("nowhere")
    (tmp_path / "bob.ipynb").write_text("{")
    status, found = graded(crew, tmp_path, "--cluster", crew.address)
    assert status == 0 and len(found) == 2
    assert {one["status"] for one in found.values()} == {grades.REFUSED}
    assert graded(crew, tmp_path, "--again") == (0, found)


def test_a_worker_with_another_course_is_refused(crew, tmp_path):
    shutil.copytree(ROOT / "course_lib", tmp_path / "course_lib")
    with open(tmp_path / "course_lib/grading/scoring.py", "a") as file:
        file.write("# everybody is right\n")
    other = crew.start("worker", crew.address, "--no-nanny", path=tmp_path)
    with Client(crew.address, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=60)
    with pytest.raises(UsageError, match="has another version of this course"):
        Cluster(crew.address)
    other.terminate()
    assert other.wait(timeout=120) is not None


def test_a_worker_with_another_course_that_joins_later_grades_nothing():
    seat = cluster._Seat([], Options())
    seat.setup(SimpleNamespace(address="tcp://late"))
    seat.course = ("3.11", "another")
    with pytest.raises(GraderError, match="tcp://late has another version"):
        seat.grade(None)


@pytest.mark.parametrize(
    "found, sentence",
    [
        (("3.9", "x"), "w has Python 3.9, expected 3"),
        (
            ImportError("No module named 'course_lib'"),
            "w cannot import this course: No",
        ),
    ],
)
def test_what_a_place_lacks_is_named_with_the_next_step(found, sentence):
    with pytest.raises(UsageError, match=sentence):
        cluster._refuse_other("w", found)


def test_when_all_workers_have_ended_nothing_waits(crew, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(cluster, "_LOOK", 0.1)
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    with Cluster(crew.address) as place, grader(place, crew) as remote:
        for worker in crew.workers:
            worker.terminate()
            worker.wait()
        grade = remote.grade(grading.handed())
    assert grade.status == grades.FAILED
    assert "no worker is connected any more" in grade.message
    hand_in(tmp_path, "ada")
    assert command.main(arguments(crew, tmp_path, "--cluster", crew.address)) == 2
    assert "Start some, on any machine: dask worker" in capfd.readouterr().err


def test_a_scheduler_that_is_lost_is_named_without_the_words_of_dask():
    lost = FutureCancelledError("_grade-59cc", "scheduler-connection-lost")
    assert cluster._reason(lost) == "the connection to the scheduler was lost"


@pytest.mark.parametrize("address", ["nonsense", "", "tcp://127.0.0.1:9"])
def test_a_wrong_address_is_one_sentence(tmp_path, monkeypatch, capfd, address):
    monkeypatch.setattr(cluster, "_CONNECTING", 0.5)
    hand_in(tmp_path, "ada")
    exercises = grading.release(tmp_path / "exercises")
    options = [f"{tmp_path}/ada", f"--exercises={exercises}", "--cluster", address]
    assert command.main(options) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"cannot connect to a Dask scheduler at {address!r}")
    assert said.count("\n") == 1


def test_without_dask_it_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "course_lib.grading.run.cluster")
    monkeypatch.delattr("course_lib.grading.run.cluster")
    hand_in(tmp_path, "ada")
    assert command.main([str(tmp_path), "--cluster", "tcp://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("--cluster needs distributed. Install it here")
