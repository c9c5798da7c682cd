"""Which rank a process is, by the variables that its launcher has set."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.text import listed

RECORDED = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class ResolvedRank:
    """One process among `world_size`; None is what its launcher does not tell."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int | None = None
    node_rank: int | None = None


class Variables(NamedTuple):
    """What a launcher calls the numbers of a rank; "" for what it does not tell."""

    launcher: str
    rank: str
    world_size: str
    local_rank: str
    local_world_size: str = ""
    node_rank: str = ""


_MPI_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
# from the innermost to the outermost: torchrun may be started by each of the others,
# MPI within a Slurm job. jsrun may set Open MPI's variables beside its own
LAUNCHERS = (
    Variables(
        "torchrun",
        rank="RANK",
        world_size="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_world_size="LOCAL_WORLD_SIZE",
        node_rank="GROUP_RANK",
    ),
    Variables("jsrun", *(f"JSM_NAMESPACE_{name}" for name in _MPI_NAMES)),
    # OMPI_COMM_WORLD_NODE_RANK is no node: it counts the ranks of all jobs on a node
    Variables("Open MPI", *(f"OMPI_COMM_WORLD_{name}" for name in _MPI_NAMES)),
    Variables("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # SLURM_NTASKS belongs to the job: a batch script has it, and is no rank
    Variables(
        "Slurm",
        rank="SLURM_PROCID",
        world_size="SLURM_STEP_NUM_TASKS",
        local_rank="SLURM_LOCALID",
        node_rank="SLURM_NODEID",
    ),
)
_TORCHRUN, *_MPI, _SLURM = LAUNCHERS
_MPICH = _MPI[-1]


def resolve_rank(env: Mapping[str, str] | None = None) -> ResolvedRank:
    """Return which rank this process is, whichever launcher started it.

    The innermost launcher counts: of torchrun started by srun that is torchrun, of
    mpirun in a Slurm job mpirun. `cl.launch` sets torchrun's variables. Errors:
    `UsageError` if a variable is missing, no launcher has told a rank, or two disagree:
    RANK set by hand with what a launcher says, or two kinds of MPI.

    Sources: https://docs.pytorch.org/docs/2.13/elastic/run.html,
    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html,
    https://slurm.schedmd.com/srun.html, and what docs/clusters.md names for the others.
    """
    env = os.environ if env is None else env
    rows = [row for row in LAUNCHERS if row.local_rank in env]
    # torchrun and cl.launch always say how many ranks their machine has
    by_hand = "RANK" in env and "LOCAL_WORLD_SIZE" not in env
    if by_hand and rows[:1] == [_TORCHRUN] and rows[1:]:
        del rows[0]
    if not rows:
        raise _nobody(env)
    inner, *outer = rows
    found = _read(inner, env, by_hand=by_hand)
    others = [row for row in outer if {inner, row} <= {*_MPI}]
    if inner == _SLURM and "PMI_RANK" in env:
        others.append(_MPICH)
    if by_hand:
        others.append(_TORCHRUN)
    for row in others:
        _compare(row, inner, env)
    return found


def _read(row, env, *, by_hand):
    """Return the numbers of one launcher, each of them checked."""
    launcher = row.launcher
    if row == _TORCHRUN and by_hand:
        launcher = "by hand"
    elif row == _MPICH and any(name.startswith("I_MPI_") for name in env):
        launcher = "Intel MPI"  # it shares MPICH's Hydra
    found = ResolvedRank(
        launcher,
        rank=_number(row.rank, env, row),
        world_size=_number(row.world_size, env, row),
        local_rank=_number(row.local_rank, env, row),
        local_world_size=_ranks_here(env, row),
        node_rank=_number(row.node_rank, env, row) if row.node_rank in env else None,
    )
    pairs = (row.rank, row.world_size), (row.local_rank, row.local_world_size)
    for less, most in pairs:
        if most in env and int(env[less]) >= int(env[most]):
            raise UsageError(
                f"{less}={env[less]} and {most}={env[most]} disagree: ranks count from"
                " 0. Was one of them set by hand?"
            )
    return found


def _number(name, env, row):
    if name not in env:
        there = listed(f"{n}={env[n]}" for n in row[1:] if n in env)
        tip = f"Hand all variables of {row.launcher} on, also into a container."
        if row == _SLURM:
            tip = "A batch script is no rank: start the ranks in it with srun."
        raise UsageError(f"{name} is missing, while there is {there}. {tip}")
    if not re.fullmatch("[0-9]+", env[name]):
        raise UsageError(f"{name} is {env[name]!r:.40}, expected a whole number.")
    return int(env[name])


def _ranks_here(env, row):
    """How many ranks this node has, None if that is not told."""
    if row.local_world_size in env:
        return _number(row.local_world_size, env, row)
    if row != _SLURM or "SLURM_STEP_TASKS_PER_NODE" not in env:
        return None
    counts = []  # [2, 2, 1] of Slurm's "2(x2),1"
    text = env["SLURM_STEP_TASKS_PER_NODE"]
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    node = _number("SLURM_NODEID", env, row)
    return counts[node] if node < len(counts) else None


def _compare(row, inner, env):
    """Refuse another rank or world size than that of the innermost launcher."""
    for name, own in (row.rank, inner.rank), (row.world_size, inner.world_size):
        if name in env and env[name] != env[own]:
            tip = "Start the ranks with one of the two."
            if row == _TORCHRUN:
                tip = "RANK and WORLD_SIZE were set by hand, perhaps in a batch"
                tip += " script or in ~/.bashrc: take them out there."
            raise UsageError(f"{name}={env[name]} and {own}={env[own]} disagree. {tip}")


def _nobody(env):
    """Return the error where no launcher has told a local rank."""
    names, tip = [row.local_rank for row in LAUNCHERS], "torchrun"
    if "LSB_JOBID" in env:
        tip = "jsrun or mpirun, or torchrun with blaunch: LSF lists hosts, not ranks"
    elif "SLURM_JOB_ID" in env:
        tip = "srun: the job itself is no rank"
    telling = {name for row in LAUNCHERS for name in row[1:]}
    telling |= {"LSB_JOBID", "LSB_MCPU_HOSTS", "SLURM_JOB_ID", "SLURM_NTASKS"}
    there = [f"{name}={env[name]}" for name in sorted(telling & {*env})]
    return UsageError(
        f"no launcher says which rank this is: none of {listed(names)} is there, found"
        f" {listed(there) if there else 'nothing'}. Start the ranks with {tip}."
    )


@functools.cache
def recorded() -> tuple[dict, ...]:
    """Return twenty environments of ranks, only the variables that matter.

    Each has `name`, `launcher`, `source` (the command that was recorded, or the page
    from which it was constructed), `env`, and `expected`: the fields of `ResolvedRank`,
    or "error" where there is no rank.
    """
    return tuple(json.loads(RECORDED.read_text(encoding="utf-8")))
