import json
import re
import sqlite3
from pathlib import Path

import pytest

from benchmarks import (
    checks,
    classroom,
    grading,
    launching,
    nbgrader,
    ranks,
    virtual,
    watching,
)
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.helper import Helper, LaunchFailed
from benchmarks.nbgrader import Course, NbgraderFailed
from course_lib.exercises.checking import exercises


class Echo:
    """A helper whose ranks answer at once."""

    def __init__(self, way, wrong=0.0):
        self.way, self.wrong = way, wrong

    def ask(self, world_size):
        self.world_size = world_size

    def answer(self):
        total = sum(range(self.world_size)) + self.wrong
        return 0.001, [float(total)] * self.world_size


class Shaky(Echo):
    """A helper whose first launches fail."""

    def __init__(self, way, bad):
        super().__init__(way)
        self.bad, self.failures = bad, 0

    def answer(self):
        if self.failures < self.bad:
            raise LaunchFailed("not done after 60 s")
        return super().answer()

    def renew(self):
        self.failures += 1


def echoes():
    return {way: Echo(way) for way in launching.TITLES}


def times_of(**milliseconds):
    """Times with the same median for every world size."""
    return {
        (way, n): [ms / 1e3, ms / 1e3, ms]
        for way, ms in milliseconds.items()
        for n in launching.SIZES
    }


def test_slow_ways_are_measured_in_every_fourth_round():
    times = launching.measure(echoes(), 8)
    counts = {way: len(times[way, 8]) for way in launching.TITLES}
    slow = dict.fromkeys(launching.SLOW, 2)
    assert counts == dict.fromkeys(("warm", "kept", "notebook"), 8) | slow


def test_every_way_comes_first_in_some_round():
    ways = list(launching.TITLES)
    firsts = {launching.order(ways, turn)[0] for turn in range(24)}
    assert firsts == set(ways)


def test_a_wrong_sum_stops_the_measurement_and_names_the_way():
    helpers = echoes() | {"kept": Echo("kept", wrong=0.5)}
    with pytest.raises(
        RuntimeError, match=r"2 ranks by kept.*\[1.5, 1.5\].*\[1.0, 1.0\]"
    ):
        launching.measure(helpers, 1)


def test_the_ratio_compares_medians():
    times = {("warm", 2): [1.0, 2.0, 30.0], ("spawn", 2): [50.0, 90.0, 100.0]}
    assert launching.ratio(times, "spawn", 2) == 45


@pytest.mark.parametrize(("kept", "met"), [(21, ["yes", "no"]), (26, ["yes", "yes"])])
def test_the_report_says_which_goals_are_met(kept, met):
    times = times_of(
        warm=60, cold=2000, kept=kept, notebook=50, spawn=2400, torchrun=4100
    )
    lines = launching.describe(times, {}).splitlines()
    verdicts = [
        line.split(" | ")[-1].strip(" |") for line in lines if "ranks: " in line
    ]
    assert verdicts == ["yes", "no", "no", *met]


def test_all_rows_of_a_table_have_the_same_number_of_columns():
    times = launching.measure(echoes(), 1)
    rows = [
        line for line in launching.describe(times, {}).splitlines() if line[:1] == "|"
    ]
    widths = [line.replace("---", "").count("|") for line in rows]
    assert widths == [8] * 8 + [4] * 7


def test_a_launch_that_fails_is_repeated_twice_at_most():
    assert launching.time_launch(Shaky("notebook", bad=2), 4) == 0.001
    with pytest.raises(LaunchFailed):
        launching.time_launch(Shaky("notebook", bad=3), 4)


def test_the_report_tells_which_way_failed_how_often():
    times = launching.measure(echoes(), 4)
    text = launching.describe(times, {"notebook": 2, "warm": 0})
    assert "`notebook_launcher`: 2 of 14 launches hung or failed" in text
    assert text.count("hung or failed") == 1


def test_sums_are_read_from_between_other_output():
    output = "W1105 a warning\n1 the sum is 1.0\n0 the sum is 1.0\n"
    assert ranks.read_sums(output) == [(1, 1.0), (0, 1.0)]


def test_kept_workers_do_one_job_after_another(tmp_path):
    helper = Helper("kept", most=3, folder=str(tmp_path))
    sums = []
    for world_size in (2, 3, 2):
        helper.ask(world_size)
        sums.append(helper.answer()[1])
    helper.close()
    assert sums == [[1.0] * 2, [3.0] * 3, [1.0] * 2]
    assert helper.process.exitcode == 0


def test_a_launch_that_fails_is_reported_with_its_reason(tmp_path):
    helper = Helper("no such way", most=2, folder=str(tmp_path))
    helper.ask(2)
    with pytest.raises(LaunchFailed, match="KeyError: 'no such way'"):
        helper.answer()
    helper.close()


@pytest.mark.parametrize("rounds", ["0", "-1", "two"])
def test_a_number_of_rounds_that_makes_no_sense_is_refused(rounds, capsys):
    with pytest.raises(SystemExit):
        main([f"--rounds={rounds}"])
    assert "give a whole number above 0" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_with_the_known_names(capsys):
    with pytest.raises(SystemExit):
        main(["lunching"])
    assert "no benchmark 'lunching'" in capsys.readouterr().err
    assert "launching" in BENCHMARKS


def test_virtual_gpus_are_compared_with_the_plain_cpu(monkeypatch):
    small = dict(list(virtual.models().items())[-2:-1])
    monkeypatch.setattr(virtual, "models", lambda: small)
    monkeypatch.setattr(virtual, "COUNT", 20)
    table = virtual.run(1)
    assert "| `x + y`, 4 × 4 |" in table
    (row,) = [line for line in table.splitlines() if "the small network" in line]
    plain, vgpu, ratio = (cell.split()[0] for cell in row.split("|")[2:5])
    measured = float(vgpu.replace(",", "")) / float(plain.replace(",", ""))
    rounded = 0.0051  # a machine that stumbles may need two digits behind the point
    assert float(ratio) == pytest.approx(measured, rel=0.02, abs=rounded)


class Clerk:
    """A classroom in which grading takes no time, and is said to take some."""

    def __init__(self, case):
        self.case = case

    def grade(self, way, count):
        each = {"nbgrader": 1.5, "two": 0.5}.get(way, 1.0)
        return 4.0 + each * count


def graded(rounds=2):
    rooms = {name: Clerk(case) for name, case in classroom.CASES.items()}
    return grading.measure(rooms, list(classroom.WAYS), rounds)


def looks(*megabytes):
    return [watching.Look(number * 10**6, 7) for number in megabytes]


def test_two_sizes_tell_the_seconds_of_a_submission_from_those_that_are_fixed():
    case = classroom.CASES["plain"]
    assert (case.few, case.many) == (2, 22)
    assert grading.fit(5.0, 15.0, case) == (0.5, 4.0)


def test_the_report_on_grading_holds_ratios_to_nbgrader_and_the_goal():
    text = grading.describe(
        graded(), watching.Watched(150.4, 0, looks(*range(100, 200)))
    )
    assert "| **`course_lib grade -j 2`** | 0.50 (0.50 to 0.50) | 0.33 × | 4.00" in text
    assert "two at once | 0.50 s | yes |" in text
    assert "one command, two at once: 150 s" in text
    assert "114 MB in 7 processes in\nthe second tenth of the time" in text
    assert "194 MB in 7 processes in the last, at most 199 MB" in text
    assert "300 submissions | 1.70 × | no |" in text


def test_all_rows_of_a_table_on_grading_have_the_same_number_of_columns():
    text = grading.describe(graded(), watching.Watched(1.0, 0, []))
    rows = [line for line in text.splitlines() if line[:1] == "|"]
    widths = [line.replace("---", "").count("|") for line in rows]
    assert widths == [6] * 12 + [4] * 4


def test_right_submissions_are_graded_while_their_memory_is_watched(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(watching, "PAUSE", 0.05)  # a run takes a quarter of a second
    room = classroom.Classroom(tmp_path, classroom.CASES["plain"])
    found = grading.watch(room, 2)
    assert found.status == 0
    # the grader, its template, a run: its memory is that of torch at least once
    assert max(look.processes for look in found.looks) >= 3
    assert max(look.bytes for look in found.looks) > 100 * 10**6


def test_right_submissions_without_their_points_stop_the_measurement(tmp_path):
    room = classroom.Classroom(tmp_path, classroom.CASES["ranks"])
    room.refuse({"learner-000": 10.0}, 1)
    with pytest.raises(classroom.Wrong, match="two ranks.*'learner-001': 0.0"):
        room.refuse({"learner-000": 10.0, "learner-001": 0.0}, 2)


def test_without_nbgrader_grading_is_not_measured_and_the_way_out_is_named(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(nbgrader, "HOME", tmp_path)
    assert main(["grading"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("grading: ") and "make" in said


def test_the_version_of_nbgrader_that_is_reported_is_the_one_installed():
    pins = Path(nbgrader.__file__).with_name("nbgrader.txt").read_text()
    assert f"nbgrader=={nbgrader.VERSION};" in pins


def test_points_that_nbgrader_leaves_to_a_person_are_refused(tmp_path):
    course = Course(tmp_path / "course", "task")
    with sqlite3.connect(course.folder / "gradebook.db") as database:
        for table in ("base_cell", "student", "submitted_notebook"):
            database.execute(f"CREATE TABLE {table} (id, name, assignment_id)")
            database.execute(f"INSERT INTO {table} VALUES (1, 'check-4-1', 1)")
        database.execute("CREATE TABLE submitted_assignment (id, student_id)")
        database.execute("INSERT INTO submitted_assignment VALUES (1, 1)")
        names = "cell_id, notebook_id, auto_score, needs_manual_grade"
        database.execute(f"CREATE TABLE grade ({names})")
        database.execute("INSERT INTO grade VALUES (1, 1, 3.0, 0)")
    assert course.points() == {1: {"check-4-1": 3.0}}
    with sqlite3.connect(course.folder / "gradebook.db") as database:
        database.execute("UPDATE grade SET needs_manual_grade = 1")
    with pytest.raises(NbgraderFailed, match="no points to check-4-1 of 1"):
        course.points()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_report_says_of_which_day_it_is(name):
    text = Path(classroom.__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    assert re.search(r"^\d{4}-\d\d-\d\d, .*torch \d", text, re.MULTILINE)


KEPT = json.loads(checks.KEPT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("exercise", exercises())
def test_a_row_of_checks_is_of_the_code_and_answers_of_its_exercise(exercise):
    again = 'they have changed: make bench ARGS="checks --save"'
    row = KEPT.get(exercise, {})
    assert row.get("digest") == checks.digest(exercise), again
    (accepted, right), (refused, wrong), _ = row["counts"]
    assert (accepted, refused) == (right, wrong), row["missed"]
    assert "failed" not in row["others"], "some seeds decide otherwise than others"
