"""`python -m tests.agreement`: does nbgrader give the points that `grade` gives?

Solutions are released by nbgrader and compared with exercises/. Then both graders get
the same notebooks: each solution, each exercise as it is handed out, and mixtures of
the answers in tests/exercises. Exit status: 1 if anything differs, 2 if it
could not be found out. With `--save` the points are kept in tests/tables/.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.nbgrader import VERSION, Course, NbgraderFailed, refuse_missing
from benchmarks.report import digest
from tests import tables
from tests.answers import Answer, right, wrong

HERE = Path(__file__).parent
ROOT = HERE.parent
# what decides points: not how a notebook is run, nor what a report says
CODE = (
    "course_lib/grading/scoring.py",
    "course_lib/grading/notebook/*.py",
    "course_lib/workspace/cell.py",
)
_ANSWER = re.compile(r"answer-(\d+)-(\d+[a-z]?)")
# both stubs in one form: ours names the exercise and says how long an answer is
_STUB = re.compile(r"# (?:\S+: your code, about \d+ lines?|your code)$", re.MULTILINE)
_KNOWN = """\
Known differences of what nbgrader releases: a stub's comment names neither exercise nor
length; cells tagged solution-only stay; its metadata have cell_type and checksum too;
answers cannot be deleted; the notebook has course_code, and not course.released."""


class GradeFailed(RuntimeError):
    """Our own grader could not do its work; its words are in the message."""


def answers(exercise: str, kind: str) -> list[Answer]:
    """The answers to an exercise, `right` or `wrong`.

    Those that only a time limit ends are left out: nbgrader has one for all cells.
    """
    every = {"right": right, "wrong": wrong}[kind]()
    return [one for one in every if one.exercise == exercise and not one.slow]


def mixture(exercise: dict, number: int) -> dict:
    """The exercise with right and wrong answers, others for each `number` from 0.

    Of the answers of neighbours one is right and one is wrong.
    """
    made, place = json.loads(json.dumps(exercise)), 0
    for cell in made["cells"]:
        name = _ANSWER.fullmatch(cell["id"])
        if name:
            kind = ("right", "wrong")[(place + number) % 2]
            found = answers(f"{name[1]}.{name[2]}", kind)
            cell["source"] = found[number * 5 % len(found)].source
            place += 1
    return made


def submissions(solution: dict, exercise: dict, mixtures: int) -> dict[str, dict]:
    """All notebooks that are handed in for one stage, by learner."""
    mixed = {f"mixed{n + 1}": mixture(exercise, n) for n in range(mixtures)}
    return {"right": solution, "stubs": exercise, **mixed}


def released_differently(ours: dict, theirs: dict) -> list[str]:
    """In what two releases differ beside what is known, a sentence for each cell."""
    own, peer = _bare(ours), _bare(theirs)
    found = [
        f"{name}: {own.get(name)} here, {peer.get(name)} by nbgrader"
        for name in {**own, **peer}
        if own.get(name) != peer.get(name)
    ]
    if not found and [*own] != [*peer]:
        found = [f"cells are in the order {[*own]} here, {[*peer]} by nbgrader"]
    return found


def _bare(notebook):
    """Cells by id and the metadata, without what is known to differ."""
    about = {**notebook["metadata"], "course": dict(notebook["metadata"]["course"])}
    about.pop("course_code", None)
    about["course"].pop("released", None)
    cells = notebook["cells"]
    kept = [c for c in cells if "solution-only" not in c["metadata"].get("tags", [])]
    return {**{cell["id"]: _bare_cell(cell) for cell in kept}, "metadata": about}


def _bare_cell(cell):
    metadata = dict(cell["metadata"])
    grader = dict(metadata.pop("nbgrader", {}))
    for key in ("checksum", "cell_type"):
        grader.pop(key, None)
    if grader.get("solution"):
        metadata.pop("deletable", None)
    source = _STUB.sub("# your code", "".join(cell["source"]))
    return {**cell, "source": source, "metadata": metadata, "nbgrader": grader}


def stamp() -> str:
    """A hash of what decides points: code, and cells with their roles and points."""
    cells = [
        [path.name, cell["id"], cell["cell_type"], cell["metadata"].get("nbgrader")]
        for path in _stages()
        for cell in _exercise(path)["cells"]
    ]
    told = json.dumps([digest(CODE), VERSION, cells], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def by_us(folder: Path, learners: Mapping[str, dict], name: str) -> dict:
    """The points that `grade` gives: by learner, by the id of the check's cell.

    Errors: `GradeFailed` if it could not do its work.
    """
    for learner, notebook in learners.items():
        place = folder / "handed" / learner / f"{name}.ipynb"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "course_lib", "grade", folder / "handed"]
    command += ["--exercises", ROOT / "exercises", "--state", folder / "state"]
    command += ["--json", "-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise GradeFailed(f"grade ended with {done.returncode}: {done.stderr}")
    found = json.loads(done.stdout)["submissions"]
    return {one["learner"]: _points(one["tasks"]) for one in found}


def _points(tasks):
    return {f"check-{one['id'].replace('.', '-')}": one["points"] for one in tasks}


def compared(ours: Mapping, theirs: Mapping, *, stage: str) -> list[str]:
    """A sentence for each task that does not get the same points from both."""
    found = []
    for learner in ours.keys() | theirs.keys():
        own, peer = ours.get(learner, {}), theirs.get(learner, {})
        for task in own.keys() | peer.keys():
            here, there = own.get(task), peer.get(task)
            if here != there:
                what = f"{here} points by grade, {there} by nbgrader"
                found.append(f"{stage}-{learner}, {task}: {what}")
    return sorted(found)


def main(arguments: list[str] | None = None) -> int:
    """Compare the stages that are asked for; the exit status comes back."""
    asked = _arguments(arguments)
    found, stages, rows = 0, list(_chosen(asked)), {}
    if not stages:
        _say(f"no submission is named {asked.only}: one is 05-right or 05-mixed1")
        return 2
    try:
        refuse_missing()
        for path, learners in stages:
            for line in _compare(path, learners, rows):
                _say(f"DIFFERENT: {line}")
                found += 1
    except (NbgraderFailed, GradeFailed) as error:
        _say(str(error))
        return 2
    _say(f"{_KNOWN}\nOther differences: {found}")
    if asked.save:
        _say(f"kept in {tables.write('agreement', rows, sources=stamp())}")
    return bool(found)


def _say(text):
    print(text, flush=True)


def _stages():
    return sorted((ROOT / "solutions").glob("*.ipynb"))


def _exercise(path):
    return _read(ROOT / "exercises" / path.name)


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def _chosen(asked):
    """Each solution of which notebooks are asked for, with those notebooks."""
    for path in _stages():
        every = submissions(_read(path), _exercise(path), asked.mixtures)
        names = {learner: f"{path.name[:2]}-{learner}" for learner in every}
        some = {one: every[one] for one in every if asked.only in names[one]}
        if some:
            yield path, some


def _compare(path, learners, rows):
    """What differs in one stage; in `rows` the points of each notebook are noted."""
    exercise, stage = _exercise(path), path.name[:2]
    longest = max(_longest(cell) for cell in exercise["cells"])
    with tempfile.TemporaryDirectory(prefix="nbgrader-") as place:
        course = Course(Path(place) / "course", path.stem, timeout=longest)
        released = course.release(_read(path))
        for learner, notebook in learners.items():
            course.submit(learner, notebook)
        course.grade()
        theirs, ours = course.points(), by_us(Path(place), learners, path.stem)
    for learner in learners:
        name, both = f"{stage}-{learner}", (ours.get(learner), theirs.get(learner))
        _say(_line(name, *both))
        rows[name] = dict(zip(("grade", "nbgrader"), map(_listed, both)))
    yield from (f"{stage}: {line}" for line in released_differently(exercise, released))
    yield from compared(ours, theirs, stage=stage)
    yield from _unexpected(ours, exercise, stage)


def _longest(cell):
    return cell["metadata"].get("course", {}).get("timeout", 0)


def _unexpected(ours, exercise, stage):
    """Solutions get all points, stubs none."""
    most = sum(
        cell["metadata"].get("nbgrader", {}).get("points", 0)
        for cell in exercise["cells"]
    )
    for learner, expected in (("right", most), ("stubs", 0)):
        found = sum(ours.get(learner, {"": expected}).values())
        if found != expected:
            yield f"{stage}-{learner}: {found} points, expected {expected}"


def _line(name, ours, theirs):
    return f"{name}: {_listed(ours)} by grade; {_listed(theirs)} by nbgrader"


def _listed(points):
    if not points:
        return "none"
    return ", ".join(f"{points[task]:g}" for task in sorted(points))


def _arguments(arguments):
    parser = argparse.ArgumentParser("python -m tests.agreement", description=__doc__)
    parser.add_argument("-k", dest="only", default="", metavar="NAME", help="as 05-1")
    parser.add_argument("--mixtures", type=int, default=2, metavar="N", help="a stage")
    parser.add_argument("--save", action="store_true", help="keep the points")
    asked = parser.parse_args(arguments)
    if asked.save and asked.only:
        parser.error("--save keeps all stages: leave -k out")
    return asked


if __name__ == "__main__":
    sys.exit(main())
