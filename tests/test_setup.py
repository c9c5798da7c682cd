"""The set-up: versions agree, make does what it says, errors name the way out."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests import layers, runs
from tests.clones import NEEDED, script, set_up

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
HERE = f'exec "{sys.executable}" "$@"'  # a script that is this Python
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TOP = {
    *("notebooks", "course_lib", "exercises", "solutions", "tests", "benchmarks"),
    *(
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "docs",
        "pyproject.toml",
        "constraints.txt",
        "environment.yml",
        "postBuild",
    ),
    "conftest.py",
}


def direct():
    """The requirements of the project and of all its extras."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines = [*PROJECT["project"]["dependencies"], *sum(extras, [])]
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.name != "course_lib"]


def pins(python):
    """The (name, version) pairs that constraints.txt holds for one Python."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    entries = [Requirement(line) for line in lines if line and line[0] != "#"]
    here = {"python_version": python, "python_full_version": f"{python}.0"}
    chosen = [e for e in entries if not e.marker or e.marker.evaluate(here)]
    return [(canonicalize_name(e.name), str(e.specifier)) for e in chosen]


def installed(names):
    """The names of distributions that `names` bring along on this machine."""
    seen, todo = set(), [Requirement(name) for name in names]
    while todo:
        requirement = todo.pop()
        key = canonicalize_name(requirement.name)
        lines = metadata.requires(key) or [] if key not in seen else []
        seen.add(key)
        extras = requirement.extras or {""}
        children = map(Requirement, lines)
        todo += [
            child
            for child in children
            if not child.marker
            or any(child.marker.evaluate({"extra": e}) for e in extras)
        ]
    return seen


def run(*command, folder, path=None, **variables):
    """A command in a clean environment, without the outer make's own variables."""
    # what an outer make was given, as in `make test CPU=1`, is not for the inner one
    outer = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "CPU", "PYTHON")
    clean = {k: v for k, v in os.environ.items() if k not in outer}
    clean |= {"PATH": str(path or os.environ["PATH"])} | variables
    return subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def clone(tmp_path):
    """A folder with the files that make reads, and no .venv."""
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def ready(clone):
    """The same after `make setup`: a .venv with its stamps, nothing installed in it."""
    set_up(clone)
    return clone


@pytest.mark.parametrize("python", PYTHONS)
def test_each_direct_dependency_has_one_exact_version_inside_its_range(python):
    exact = dict(pins(python))
    assert len(direct()) > 10
    for requirement in direct():
        pin = exact[canonicalize_name(requirement.name)]
        assert re.fullmatch(r"==[\w.]+", pin), requirement
        assert requirement.specifier.contains(pin.removeprefix("==")), requirement


@pytest.mark.parametrize("python", PYTHONS)
def test_no_package_is_pinned_twice(python):
    counts = Counter(name for name, _ in pins(python))
    assert len(counts) > 100
    assert counts.most_common(1)[0][1] == 1


def test_every_range_has_an_upper_end():
    for requirement in direct():
        assert {"<", "=="} & {part.operator for part in requirement.specifier}, (
            requirement
        )


@pytest.mark.parametrize("python", PYTHONS)
def test_torch_is_the_newest_that_was_tested(python):
    pin = dict(pins(python))["torch"]
    # torch 2.15 is not made for Python 3.10
    assert pin == ("==2.14.1" if python == "3.10" else "==2.15.0")


def test_packages_that_come_along_are_pinned_at_the_installed_version():
    exact = dict(pins(f"{sys.version_info.major}.{sys.version_info.minor}"))
    names = installed(PROJECT["project"]["dependencies"])
    # torch itself pins what brings CUDA
    names = {n for n in names if not re.match(r"nvidia-|cuda-|triton$", n)}
    assert len(names) > 50
    wrong = {n: metadata.version(n) for n in names if not pinned(exact, n)}
    assert wrong == {}


def pinned(exact, name):
    return metadata.version(name).partition("+")[0] == exact.get(name, "").lstrip("=")


def test_ruff_has_one_version_everywhere():
    asked = next(str(r.specifier) for r in direct() if r.name == "ruff")
    found = {asked, PROJECT["tool"]["ruff"]["required-version"]}
    found |= {dict(pins(python))["ruff"] for python in PYTHONS}
    assert len(found) == 1


def test_conda_brings_a_python_that_the_project_accepts_and_pip_the_rest():
    text = (ROOT / "environment.yml").read_text()
    python = re.search(r"^  - python=([\d.]+)$", text, re.M)[1]
    assert python in PYTHONS
    assert python in SpecifierSet(PROJECT["project"]["requires-python"])
    assert re.findall(r"^      - (.*)", text, re.M) == ["-c constraints.txt", "-e ."]


def test_the_package_imports_nothing_undeclared():
    lines = map(Requirement, PROJECT["project"]["dependencies"])
    declared = {line.name.replace("scikit-learn", "sklearn") for line in lines}
    # matplotlib brings PIL, ipykernel the rest; torchvision is optional
    declared |= {"course_lib", "PIL", "IPython", "jupyter_client", "zmq", "torchvision"}
    extras = PROJECT["project"]["optional-dependencies"]
    graded = {Requirement(line).name for line in extras["grade"] + extras["cluster"]}
    for file in (ROOT / "course_lib").rglob("*.py"):
        allowed = declared | (graded if "grading" in file.parts else set())
        assert imports(file) - allowed - set(sys.stdlib_module_names) == set(), file


def imports(file):
    """The names of top-level packages that a module imports, anywhere in it."""
    return {name.partition(".")[0] for name in layers.imported(file.read_text())}


def test_the_top_level_holds_only_what_the_readme_lists():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone: tracked files are unknown")
    options = ("--cached", "--others", "--exclude-standard")
    tracked = run("git", "ls-files", *options, folder=ROOT).stdout.splitlines()
    names = {name.partition("/")[0] for name in tracked}
    assert "pyproject.toml" in names
    assert {name for name in names if not name.startswith(".")} <= TOP


def test_make_alone_lists_every_command(clone):
    listed = run("make", folder=clone).stdout
    commands = ("setup", "lab", "test", "proof", "grade", "bench", "nbgrader", "book")
    for command in (*commands, "try-torch", "versions", "gpu"):
        assert re.search(rf"^  {command} +\w", listed, re.M), command


def test_make_lab_installs_makes_work_and_opens_its_first_lesson(clone):
    plan = run("make", "-n", "lab", "ARGS=--no-browser", folder=clone).stdout
    install, lab = plan.index("pip install"), plan.index("-m jupyterlab")
    assert install < plan.index(f'-m course_lib work "{clone}/work"') < lab
    assert "--no-browser" in plan[lab:]
    assert f'root_dir="{clone}/work"' in plan[lab:]
    assert "work/notebooks/00_start_here.ipynb" in plan[lab:]


def test_make_lab_ends_where_work_cannot_be_made(ready):
    (ready / "work").write_text("mine")
    done = run("make", "lab", folder=ready)
    assert done.returncode != 0
    assert "work is a file. Name another folder" in done.stderr


def test_make_grade_looks_where_the_command_looks(clone):
    plan = run("make", "-n", "grade", "ARGS=week4.zip", folder=clone).stdout
    assert plan.splitlines()[-1].endswith("-m course_lib grade week4.zip")


def test_no_test_or_linter_looks_into_a_learners_copy():
    assert "/work/" in (ROOT / ".gitignore").read_text().splitlines()
    assert {"work", "_book"} <= set(PROJECT["tool"]["ruff"]["extend-exclude"])
    assert "work" not in PROJECT["tool"]["pytest"]["ini_options"]["testpaths"]


def test_a_second_make_lab_installs_nothing(ready):
    plan = run("make", "-n", "lab", folder=ready).stdout
    assert "-m jupyterlab" in plan
    assert "pip install" not in plan


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_a_changed_version_installs_again(ready, file):
    stamp = (ready / ".venv/.setup").stat().st_mtime
    os.utime(ready / file, (stamp + 1, stamp + 1))
    assert "pip install" in run("make", "-n", "setup", folder=ready).stdout


def test_a_moved_clone_makes_its_environment_anew(ready):
    (ready / ".venv/.made").write_text("/elsewhere\n")
    plan = run("make", "-n", "setup", folder=ready).stdout
    assert "-m venv" in plan
    assert "pip install" in plan


def test_cpu_takes_torch_alone_from_the_cpu_index_before_the_rest(clone):
    plan = run("make", "-n", "setup", "CPU=1", folder=clone).stdout
    torch, rest = (part for part in plan.split("-m pip install")[1:])
    assert "--no-deps" in torch
    assert "--index-url https://download.pytorch.org/whl/cpu torch" in torch
    assert '-e "."' in rest
    assert "--index-url" not in rest


def test_make_test_checks_style_and_runs_pytest_last(clone):
    lines = run("make", "-n", "test", folder=clone).stdout.splitlines()
    assert "ruff check" in lines[-3]
    assert "ruff format --check" in lines[-2]
    assert "-m pytest" in lines[-1]


@pytest.mark.parametrize("name", runs.NAMES)
def test_make_says_which_run_it_is(clone, name):
    last = run("make", "-n", name, "ARGS=-x", folder=clone).stdout.splitlines()[-1]
    assert last.endswith(f"--run {name} -x")


def test_the_book_is_made_in_an_environment_of_its_own(ready):
    (ready / "docs/book").mkdir(parents=True)
    for name in ("requirements.txt", "constraints.txt"):
        shutil.copy(ROOT / "docs/book" / name, ready / "docs/book")
    (ready / ".venv/.test").touch()
    plan = run("make", "-n", "book", "REPOSITORY=https://e.org/c", folder=ready).stdout
    assert re.findall(r"(\S+) -m pip", plan) == [".venv/book/bin/python"]
    build, read = plan.index("-m docs.book"), plan.index("tests/built_book.py")
    assert plan.index("-m pip") < build < read
    assert '--repository "https://e.org/c"' in plan[build:]


def test_the_book_has_exact_versions_of_all_that_it_needs():
    texts = [ROOT / f"docs/book/{name}.txt" for name in ("requirements", "constraints")]
    asked, exact = (
        [line for line in text.read_text().splitlines() if line[0] != "#"]
        for text in texts
    )
    assert set(asked) <= set(exact) and len(exact) > 70
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in exact)


def test_another_torch_must_be_named(ready):
    done = run("make", "try-torch", folder=ready)
    assert done.returncode != 0
    assert "Name a version: make try-torch VERSION=" in done.stderr


def test_a_torch_that_pip_cannot_get_is_named(ready):
    # this Python makes an environment in which nothing can be installed
    makes = "mkdir -p $4/bin; echo exit 1 > $4/bin/python; chmod +x $4/bin/python"
    script(ready / ".venv/bin/python", f"case $2 in venv) {makes};; esac")
    done = run("make", "try-torch", "VERSION=9.9", folder=ready)
    assert done.returncode != 0
    assert "pip could not install torch 9.9" in done.stderr
    assert "pip index versions torch" in done.stderr


def test_another_torch_leaves_the_environment_of_the_course_alone(ready):
    target = ".venv/try-torch-2.12.0/.try"
    plan = run("make", "-n", target, "VERSION=2.12.0", folder=ready).stdout
    plan = re.sub(r"\\\n\s*", "", plan)  # lines that go on
    installs = re.findall(r"(\S+) -m pip install (.*)", plan)
    assert {python for python, _ in installs} == {".venv/try-torch-2.12.0/bin/python"}
    assert "torch==2.12.0 'setuptools>=77' -r" in installs[0][1]
    assert installs[1][1].startswith("--no-deps -e .")


def test_the_torch_that_is_there_is_kept_and_stays_so(clone):
    here = f"PYTHON={sys.executable}"
    done = run("make", ".venv/.kept", "TORCH=keep", here, folder=clone)
    version = metadata.version("torch").partition("+")[0]
    assert f"keeping torch {version}" in done.stdout, done.stderr
    lines = (clone / ".venv/.kept").read_text().splitlines()
    assert lines[-1] == f"torch=={version}" and len(lines) > 100
    assert not [line for line in lines[:-1] if re.match("(torch|setuptools)==", line)]
    code = "import torch, sys; print(torch.__file__, sys.prefix)"
    said = run(".venv/bin/python", "-c", code, folder=clone).stdout.split()
    assert said == [torch.__file__, str(clone / ".venv")]
    helped = run(".venv/bin/torchrun", "--help", folder=clone)
    assert "--nproc-per-node" in helped.stdout, helped.stderr
    # another make, which does not name it
    plan = run("make", "-n", "test", folder=clone).stdout
    assert "-m pip install -c .venv/.kept -e" in plan


def test_a_python_without_torch_has_none_to_keep(clone):
    script(
        clone / "bin/python-here", f'case "$2" in *find_spec*) exit 1;; esac\n{HERE}'
    )
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    how = "TORCH=keep", "PYTHON=python-here"
    done = run("make", "lab", *how, folder=clone, path=path)
    assert done.returncode != 0
    assert "TORCH=keep: python-here has no torch. Name the Python" in done.stderr


def test_a_torch_that_was_installed_is_not_mixed_with_one_to_keep(ready):
    done = run("make", "lab", "TORCH=keep", folder=ready)
    assert done.returncode != 0
    assert "a torch of its own: run 'rm -rf .venv' first" in done.stderr


def test_there_is_one_choice_of_torch(clone):
    done = run("make", "lab", "TORCH=2.12", folder=clone)
    assert "TORCH=2.12: the only choice is TORCH=keep" in done.stderr


def test_a_torch_out_of_range_is_named_with_the_range(ready):
    (ready / ".venv/.setup").unlink()
    (ready / ".venv/.kept").write_text("numpy==2.4.6\ntorch==2.9.1\n")
    later = (ready / "constraints.txt").stat().st_mtime + 1
    os.utime(ready / ".venv/.kept", (later, later))
    script(ready / ".venv/bin/python", "exit 1")
    done = run("make", "setup", folder=ready)
    assert done.returncode != 0
    assert "beside torch 2.9.1, which TORCH=keep keeps" in done.stderr
    assert "The course needs torch>=2.11,<2.16." in done.stderr


@pytest.mark.parametrize(
    ("environment", "named", "python"),
    [(True, (), ".venv/bin/python"), (False, (), "python3"), (True, "P", "P")],
)
def test_a_gpu_is_asked_with_the_python_that_is_named_or_there(
    clone, environment, named, python
):
    if environment:
        set_up(clone)
    names = [f"PYTHON={name}" for name in named]
    plan = run("make", "-n", "gpu", "ARGS=machine", *names, folder=clone).stdout
    assert plan.splitlines()[-1].endswith(f"{python} -m benchmarks.gpu machine")
    assert "pip" not in plan


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        (None, "There is no python-here here: install Python 3.10"),
        (
            "[ $1 = -V ] && echo Python 3.9.2; exit 1",
            "is Python 3.9.2, the course needs",
        ),
        ("case $2 in *ensurepip*) exit 1;; *argv*) ;; esac", "cannot make virtual"),
    ],
)
def test_a_python_that_will_not_do_is_named_with_the_way_out(clone, python, sentence):
    if python:
        script(clone / "bin/python-here", python)
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    done = run("make", "setup", "PYTHON=python-here", folder=clone, path=path)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert not (clone / ".venv/.setup").exists()


def test_another_python_than_that_of_the_environment_is_refused(ready):
    script(ready / "bin/python-here", "echo Python 3.99.0")
    path = f"{ready / 'bin'}:{os.environ['PATH']}"
    done = run("make", "lab", "PYTHON=python-here", folder=ready, path=path)
    assert done.returncode != 0
    assert "rm -rf .venv" in done.stderr


def test_a_failed_download_ends_with_what_to_do(ready):
    (ready / ".venv/.setup").unlink()
    script(ready / ".venv/bin/python", "exit 1")
    done = run("make", "setup", folder=ready)
    assert done.returncode != 0
    assert "set https_proxy, then run make setup again" in done.stderr
    assert not (ready / ".venv/.setup").exists()


# the first time half of its work is done, then it is killed
KILLED_ONCE = "[ -e killed ] || { touch killed; mkdir -p .venv/bin; kill -KILL $$; }"


def test_an_interrupted_download_goes_on_with_the_same_command(ready):
    (ready / ".venv/.setup").unlink()
    script(ready / ".venv/bin/python", f'case "$*" in *install*) {KILLED_ONCE};; esac')
    first = run("make", "setup", folder=ready)
    assert first.returncode != 0 and "run make setup again" in first.stderr
    assert not (ready / ".venv/.setup").exists()
    again = run("make", "setup", folder=ready)
    assert again.returncode == 0 and (ready / ".venv/.setup").exists()


@pytest.mark.proof
def test_an_environment_that_was_half_made_is_made_anew(clone):
    made = f'case "$*" in "-m venv"*) {KILLED_ONCE};; esac; {HERE}'
    script(clone / "bin/python-here", made)
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    command = "make", ".venv/.made", "PYTHON=python-here"
    assert run(*command, folder=clone, path=path).returncode != 0
    assert (clone / ".venv/bin").exists() and not (clone / ".venv/.made").exists()
    again = run(*command, folder=clone, path=path)
    assert again.returncode == 0, again.stderr
    assert run(str(clone / ".venv/bin/python"), "-m", "pip", "-V", folder=clone).stdout


@pytest.mark.parametrize(
    ("tools", "hinted"),
    [((), True), (("nvidia-smi",), False)],
)
def test_cpu_is_recommended_where_no_gpu_answers(ready, tools, hinted):
    (ready / ".venv/.setup").unlink()
    # this Python finds no torch, and its pip succeeds
    script(ready / ".venv/bin/python", "case $1 in -c) exit 1;; esac")
    script(ready / "bin/uname", "echo Linux")
    for tool in tools:
        script(ready / "bin" / tool, "")
    links(ready / "bin", "sh", "make", "cat", "touch", "id")
    done = run("make", "setup", folder=ready, path=ready / "bin")
    assert done.returncode == 0, done.stderr
    assert ("make setup CPU=1" in done.stdout) is hinted


def links(folder, *tools):
    for tool in tools:
        (folder / tool).symlink_to(shutil.which(tool))


@pytest.fixture
def builder(tmp_path):
    """A clone as .ci/run sees it, on a machine whose programs are all stand-ins."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    there = "chromium bwrap python3 mpirun.openmpi mpirun.mpich shellcheck"
    for name in there.split():
        script(tmp_path / "bin" / name, "exit 0")
    script(tmp_path / "bin/make", 'echo "make $@, CI=$CI"; [ ! -s /dev/stdin ]')
    script(tmp_path / "bin/apt-get", 'echo "apt-get $@"')
    script(tmp_path / "bin/id", "echo 0")
    links(tmp_path / "bin", "bash", "env", "dirname", "sh")
    return tmp_path


def ci(folder):
    return run(str(folder / ".ci/run"), folder="/", path=folder / "bin")


RUNS = ["make .venv/.test", "make test", "make proof"]


def test_ci_runs_all_tests_says_how_long_and_has_their_status(builder):
    done = ci(builder)
    told = [f"{run}{end}" for run in RUNS for end in (", CI=true", ": 0 min N s")]
    lines = re.sub(r"\d+ s$", "N s", done.stdout, flags=re.MULTILINE).splitlines()
    assert (lines, done.returncode) == (told, 0)


@pytest.mark.parametrize(("red", "called"), [(".venv/.test", 1), ("test", 3)])
def test_ci_is_red_if_one_run_is(builder, red, called):
    script(builder / "bin/make", f"echo $1, CI; [ $1 != {red} ]")
    done = ci(builder)
    assert done.stdout.count("CI") == called and done.returncode


def test_ci_installs_only_what_is_missing(builder):
    (builder / "bin/bwrap").unlink()
    first, second, third, *_ = ci(builder).stdout.splitlines()
    assert first.startswith("apt-get update")
    assert second.startswith("apt-get install")
    assert second.endswith("recommends bubblewrap")
    assert third == "make .venv/.test, CI=true"


def test_ci_installs_nothing_without_root(builder):
    (builder / "bin/chromium").unlink()
    script(builder / "bin/id", "echo 1000")
    assert ci(builder).stdout.splitlines()[0] == "make .venv/.test, CI=true"
