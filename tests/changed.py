"""`make test ARGS=--changed`: only the tests that depend on files which differ.

A test file depends on what it imports, directly or not, on the folders and files of the
project that it names, and on the whole package if it starts processes: what a kernel
imports cannot be seen. Tests of answers depend on their answer and on its check.
Plugins that trace lines, or read imports alone, see neither ranks nor notebooks.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from course_lib import _homes, scenes
from course_lib.exercises import folders
from tests import layers

ROOT = Path(__file__).parents[1]
CODE = ("course_lib", "tests", "benchmarks")
CHECKS, ANSWERS = "course_lib/exercises", "tests/exercises"
# what a test may read by name
NAMED = (
    *("notebooks", "exercises", "solutions", "benchmarks", ".ci", "environment.yml"),
    *(
        "README.md",
        "docs",
        "CHANGELOG.md",
        "Makefile",
        "tables",
        "mutants",
        "handed_out",
        "templates",
    ),
)
PLACES = {name: f"tests/{name}" for name in ("tables", "mutants", "handed_out")}
PLACES["templates"] = "course_lib/grading/report/templates"
EVERYTHING = {"conftest.py", "tests/conftest.py", "pyproject.toml", "constraints.txt"}
# packages whose names load the module that holds them: how they are called, and where
FACES = {
    "course_lib": ("course_lib|cl", _homes()),
    "course_lib.scenes": ("scenes", {name: name for name in scenes.__all__}),
}
SCENES = "course_lib/scenes/__init__.py"
# a module with one of these starts a process that imports the package
STARTS = ("import subprocess", "tests.kernels", "import kernels", "launch(")
# fixtures of tests/conftest.py, and what they use
FIXTURES = {
    "devs": "course_lib/accelerators/vgpu",
    "virtual": "course_lib/accelerators/vgpu",
}


def pytest_addoption(parser):
    """The option, with the commit to compare with."""
    parser.addoption(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="COMMIT",
        help="only tests that depend on files which differ from COMMIT (HEAD)",
    )


def choose(config, items) -> None:
    """Leave out the tests that depend on nothing that differs."""
    commit = config.getoption("changed")
    if not commit:
        return
    changed = differing(commit)
    if changed & EVERYTHING:
        return
    kept = [item for item in items if needs(item) & changed]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def differing(commit: str) -> set[str]:
    """The files that differ from a commit, new ones included."""
    return _git("diff", "--name-only", "--no-renames", commit) | _git(
        "ls-files", "--others", "--exclude-standard"
    )


def _git(*arguments):
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise pytest.UsageError(f"--changed: {done.stderr.strip()}")
    return set(done.stdout.splitlines())


def needs(item) -> frozenset[str]:
    """The files that a test depends on."""
    name = item.path.relative_to(ROOT).as_posix()
    if name.endswith(".ipynb"):
        given = _below("notebooks/scripts") | _closure("tests/forked.py")
        return frozenset({name}) | given | package()
    given = getattr(item, "callspec", None)
    answer = given.params.get("answer") if given else None
    if answer is None:
        return of_file(name)
    own = {answer.place.partition(",")[0], name, "tests/answers.py"}
    own |= _checking(answer.exercise)
    if "rows" in answer.place:
        own |= _below(f"{ANSWERS}/{folders.folder_name(answer.exercise)}/right")
    return frozenset(own | {"tests/checking.py"} | package())


def _checking(exercise):
    """What decides an exercise, of its own and of others: modules, texts, mistakes."""
    files = _below(f"{CHECKS}/{folders.folder_name(exercise)}")
    files |= set().union(*map(_closure, filter(re.compile(r".*\.py$").match, files)))
    for file in filter(re.compile(r".*/judge\.py$").match, files.copy()):
        files |= _below(f"{Path(file).parent}/texts.ini")
    return files


@cache
def of_file(name: str) -> frozenset[str]:
    """The files that a test file depends on."""
    modules = _closure(name)
    sources = {module: _source(module) for module in modules}
    found = set(modules)
    mine = [text for module, text in sources.items() if module.startswith("tests/")]
    for word in NAMED:
        if any(word in text for text in mine):
            found |= _below(PLACES.get(word, word))
    for word, folder in FIXTURES.items():
        if re.search(rf"def \w+\(.*\b{word}\b", sources[name]):
            found |= _below(folder) | _closure("course_lib/accelerators/virtual.py")
    if any(word in text for text in mine for word in STARTS):
        found |= _below("course_lib")
    if "tests.answers" in sources[name] or "from tests import answers" in sources[name]:
        found |= _below(ANSWERS)
    if "course_lib/accelerators/hardware.py" in found:
        found |= {f"course_lib/accelerators/{name}.csv" for name in ("gpus", "links")}
    return frozenset(found)


@cache
def package() -> frozenset[str]:
    """The package without its checks and its grader."""
    left_out = re.compile(rf"{CHECKS}/e\d|course_lib/grading/")
    return frozenset(f for f in _below("course_lib") if not left_out.match(f))


@cache
def _below(name):
    path = ROOT / name
    files = [path] if path.is_file() else path.rglob("*")
    return frozenset(f.relative_to(ROOT).as_posix() for f in files if f.is_file())


def _closure(name):
    """A module and all modules of the project that it imports, directly or not."""
    found, new = set(), {name}
    while new:
        found |= new
        new = set().union(*map(_imports, new)) - found
    return found


@cache
def _source(name):
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def _imports(name):
    """The files of the project that a module imports, anywhere in it."""
    if name == SCENES:  # it imports all scenes; who uses one depends on that one
        return set()
    names = layers.imported(_source(name))
    files = set(filter(None, map(_file, names)))
    return files | _behind_faces(names, _source(name))


def _behind_faces(imported, source):
    """The modules that hold what is used of a face, which loads them at first use."""
    files = set()
    for face, (called, homes) in FACES.items():
        used = set(re.findall(rf"\b(?:{called})\.(\w+)", source))
        used |= {word for word in homes if f"{face}.{word}" in imported}
        files |= {_file(f"{face}.{homes[word]}") for word in used if word in homes}
    return files


def _file(module):
    """The file of a module of the project, or None."""
    if module.split(".")[0] not in CODE:
        return None
    path = ROOT / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file.relative_to(ROOT).as_posix()
    return None
