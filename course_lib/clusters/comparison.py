"""What a rank is told by each launcher: run where it is installed, else recorded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.clusters.environments import LAUNCHERS, recorded
from course_lib.display import html_table

# of the recorded ones, the last rank of two nodes with two ranks each
_RECORDED = {
    "torchrun": "torchrun on two nodes",
    "Open MPI": "Open MPI on two nodes",
    "MPICH": "MPICH, ranks in turn",
    "Slurm": "srun on two nodes",
    "jsrun": "jsrun in an LSF job",
}
# in one piece: MPICH mixes what two ranks write
_TELL = """import json, os, sys
told = {name: os.environ[name] for name in sys.argv[1:] if name in os.environ}
os.write(1, f"told {json.dumps(told)}\\n".encode())"""
_PATIENCE = 20  # seconds


class _Program(NamedTuple):
    """A launcher that may be here: names, what its version says, options, package."""

    names: tuple[str, ...]
    version: str
    options: tuple[str, ...]
    package: str


_PROGRAMS = {
    "Open MPI": _Program(
        ("mpirun.openmpi", "mpirun"), "Open", ("--oversubscribe",), "openmpi-bin"
    ),
    "MPICH": _Program(("mpirun.mpich", "mpirun"), "HYDRA", (), "mpich"),
}


@dataclass(frozen=True)
class Comparison:
    """For each launcher the three variables of a rank, and where they come from."""

    rows: tuple[tuple[str, ...], ...]

    def __repr__(self):
        return "\n".join("  ".join(row) for row in self.rows)

    def _repr_html_(self):
        heads = "", "rank", "ranks in all", "local rank", ""
        return html_table(heads, self.rows)


def compare_launchers() -> Comparison:
    """Return what the last rank is told by torchrun, Open MPI, MPICH, Slurm and jsrun.

    The MPI launchers start two ranks here, if they are installed. The others, and those
    that are missing, were recorded on two nodes; jsrun is from its documentation.
    """
    return Comparison(tuple(_row(launcher) for launcher in _RECORDED))


def _row(launcher):
    variables = next(row for row in LAUNCHERS if row.launcher == launcher)
    env, source = _found(launcher, variables)
    values = (f"{name}={env[name]}" for name in variables[1:4])
    return (launcher, *values, source)


def _found(launcher, variables) -> tuple[Mapping[str, str], str]:
    """Return the variables of a rank, and where they come from."""
    program = _PROGRAMS.get(launcher)
    lacks = ""
    if program:
        path = _path(program)
        env = _last_rank(path, program, variables) if path else None
        if env:
            return env, f"run here: {os.path.basename(path)} -n 2"
        lacks = f"; to run it here: sudo apt-get install {program.package}"
    run = next(row for row in recorded() if row["name"] == _RECORDED[launcher])
    return run["env"], run["source"].split(",")[0] + lacks


def _path(program):
    """Return the program of that launcher; `mpirun` may be another's."""
    for path in filter(None, map(shutil.which, program.names)):
        if program.version in _output([path, "--version"], os.environ):
            return path
    return None


def _last_rank(path, program, variables):
    """Return what the last of two ranks finds in its environment; or None."""
    # without what a launch or a job that this process is in has set
    told = {name for row in LAUNCHERS for name in row[1:]}
    env = {name: value for name, value in os.environ.items() if name not in told}
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    names = variables[1:4]
    script = [sys.executable, "-c", _TELL, *names]
    lines = _output([path, *program.options, "-n", "2", *script], env).splitlines()
    texts = [line.removeprefix("told ") for line in lines if line.startswith("told ")]
    ranks = [rank for rank in map(json.loads, texts) if len(rank) == len(names)]
    return max(ranks, key=lambda rank: rank[variables.rank], default=None)


def _output(command, env):
    """Return what a command prints; nothing if it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
