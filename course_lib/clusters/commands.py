"""The command that starts a script on several nodes, for six launchers."""

from __future__ import annotations

import difflib
import re
import shlex
import string
from collections.abc import Collection, Sequence
from pathlib import Path

from course_lib.errors import UsageError

LAUNCHERS = ("torchrun", "Open MPI", "Intel MPI", "MPICH", "srun", "jsrun")
JOB_IDS = {"slurm": "SLURM_JOB_ID", "lsf": "LSB_JOBID"}
_TEMPLATES = Path(__file__).with_name("templates")
# an allocation has its own names; a job's MASTER_ADDR goes to all ranks
_FIRST_NODE = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


def command(
    launcher: str,
    script: str,
    *,
    nodes: int = 1,
    ranks_per_node: int = 1,
    cores: int | None = None,
    hosts: Sequence[str] | None = None,
    scheduler: str = "",
    restarts: int = 0,
) -> str:
    """Return one line for a shell that starts `script`, a file and its arguments.

    Launchers are torchrun (the line runs on each node), "Open MPI", "Intel MPI",
    "MPICH", srun and jsrun. With `cores`, each rank is bound to so many, but torchrun
    binds none. `hosts` are node0, node1 and so on if none are named. In a job of
    `scheduler`, slurm or lsf, the scheduler knows them, and MASTER_ADDR and MASTER_PORT
    are set (`job_script` does). `restarts`: how often torchrun starts all ranks again
    if one dies, with a new store. The script finds its rank by `resolve_rank`.

    Errors: `UsageError` for an unknown launcher, a number that is none, hosts that
    are not as many as nodes, a script that a shell could not read.

    Sources: https://docs.pytorch.org/docs/2.13/elastic/run.html, mpirun(1) of Open MPI
    4.1, Intel MPI Library Developer Reference for Linux (Global Hydra Options,
    I_MPI_PIN_DOMAIN), https://slurm.schedmd.com/srun.html,
    https://www.ibm.com/support/knowledgecenter/SSWRJV_10.1.0/jsm/jsrun.html
    """
    choice(launcher, LAUNCHERS, what="launcher")
    total = whole("nodes", nodes) * whole("ranks_per_node", ranks_per_node)
    if whole("restarts", restarts, least=0) and launcher != "torchrun":
        raise UsageError(f"{launcher} does not restart ranks: torchrun does")
    bound = "" if cores is None else whole("cores", cores)
    place = _in_job(scheduler) if scheduler else _by_hand(nodes, ranks_per_node, hosts)
    if launcher == "srun":
        place["address"] = "" if scheduler else _FIRST_NODE
    fields = {
        **place,
        "nodes": nodes,
        "ranks": ranks_per_node,
        "total": total,
        "cores": bound,
        "unbound": "" if bound else "none",
        "restarts": restarts or "",
        "fresh": 1 if restarts and not scheduler else "",  # a job script exports it
        "endpoint": f"{place['address']}:{place['port']}" if nodes > 1 else "",
        "standalone": "--standalone" if nodes == 1 else "",
        "script": quoted(script),
    }
    return " ".join(fill(launcher, fields))


def _in_job(scheduler):
    choice(scheduler, JOB_IDS, what="scheduler")
    return {
        "hosts": "",
        "slots": "",
        "address": '"$MASTER_ADDR"',
        "port": '"$MASTER_PORT"',
        "job": f'"${JOB_IDS[scheduler]}"',
    }


def _by_hand(nodes, ranks, hosts):
    if hosts is None:
        hosts = [f"node{i}" for i in range(nodes)] if nodes > 1 else ["localhost"]
    if isinstance(hosts, str) or len(hosts) != nodes:
        raise UsageError(f"hosts are {hosts!r:.60}, expected a list with {nodes} names")
    hosts = [word("hosts", host) for host in hosts]
    return {
        "hosts": ",".join(hosts),
        "slots": ",".join(f"{host}:{ranks}" for host in hosts),
        "address": hosts[0],
        "port": 29500,
        "job": "job1",
    }


class _Template(string.Template):
    delimiter = "@"  # the shell's own stay


def fill(name: str, fields: dict) -> list[str]:
    """Fill in a template; lines that have an empty field go."""
    path = _TEMPLATES / f"{name.lower().replace(' ', '_')}.in"
    return [
        _Template(line).substitute(fields)
        for line in path.read_text(encoding="utf-8").splitlines()
        if "" not in map(fields.get, re.findall(r"@\{?(\w+)", line))
    ]


def quoted(script: str) -> str:
    """Return a script and its arguments, each quoted for a shell."""
    try:
        parts = shlex.split(script) if "\n" not in script else []
    except ValueError:  # a quote without its other end
        parts = []
    if not parts:
        raise UsageError(
            f"cannot start {script!r:.60}: expected a file and its arguments in one"
            " line, as 'train.py --epochs 3', each quote with its other end"
        )
    return shlex.join(parts)


def word(name: str, value: str) -> str:
    """Return the value, if it is a word of letters and digits."""
    if not value or shlex.quote(value) != value:
        raise UsageError(f"{name} is {value!r:.40}, expected letters and digits")
    return value


def whole(name: str, value: int, *, least: int = 1) -> int:
    """Return the value, if it is a whole number from `least` on."""
    if type(value) is not int or value < least:
        raise UsageError(
            f"{name} is {value!r:.40}, expected a whole number, {least} or more"
        )
    return value


def choice(name: str, names: Collection[str], *, what: str) -> None:
    """Refuse a name that is not among `names`, with the nearest of them."""
    if name not in names:
        low = {known.lower(): known for known in names}
        near = difflib.get_close_matches(str(name).lower(), low, 1)
        tip = f" Did you mean {low[near[0]]!r}?" if near else ""
        raise UsageError(
            f"{what} {name!r:.40} is not known: there are {', '.join(names)}.{tip}"
        )
