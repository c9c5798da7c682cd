"""Scripts for a scheduler, Slurm or LSF, that start a training on several nodes."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from course_lib.clusters.commands import choice, command, fill, whole, word
from course_lib.errors import UsageError

_MPI = ("Open MPI", "Intel MPI", "MPICH")
SCHEDULERS = {
    "slurm": ("torchrun", "srun", *_MPI),
    "lsf": ("torchrun", "jsrun", *_MPI),
}
_SUBMIT = {"slurm": "sbatch", "lsf": "bsub <"}
# torchrun runs once on each node; since 22.05 srun does not take cores from sbatch
_ON_EACH_NODE = {
    "slurm": "srun --nodes={nodes} --ntasks-per-node=1 --cpus-per-task={width}"
    " --kill-on-bad-exit=1",
    "lsf": 'blaunch -z "$(sort -u "$LSB_DJOB_HOSTFILE" | xargs)"',
}
# an agent that does not handle a signal dies of it, and its ranks stay
_HAND_ON = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
_END = 10  # seconds before the end of a job, when agents give up ranks that still save


class JobScript(str):
    """The text of a job script; a notebook shows it to be copied or downloaded."""

    scheduler = "slurm"

    def save(self, path: str | Path) -> Path:
        """Write the script to a file; its path."""
        path = Path(path)
        path.write_text(self, encoding="utf-8")
        return path

    def __repr__(self):
        return str(self)

    def page(self) -> str:
        """Return HTML: the script, a link to download it, how to hand it in."""
        name, data = f"train.{self.scheduler}", base64.b64encode(self.encode()).decode()
        style = "user-select:all;border:1px solid #8888;padding:.5em;overflow-x:auto"
        style += ";word-break:normal;overflow-wrap:anywhere"
        link = f'<a download="{name}" href="data:text/plain;base64,{data}"'
        link += f' style="text-decoration:underline">{name}</a>'
        submit = html.escape(f"{_SUBMIT[self.scheduler]} {name}")
        return (
            f'<pre style="{style}" tabindex="0">{html.escape(self)}</pre>'
            f"One click selects all. Download {link}, then <code>{submit}</code>"
        )

    _repr_html_ = page


def job_script(
    scheduler: str,
    script: str,
    *,
    launcher: str = "torchrun",
    nodes: int = 1,
    gpus: int = 1,
    cores: int = 4,
    memory: int = 16,
    minutes: int = 60,
    account: str = "",
    queue: str = "",
    setup: Sequence[str] = (),
    restarts: int = 0,
    warn: int | None = None,
) -> JobScript:
    """Write a script for sbatch (slurm) or bsub (lsf) that starts `script`.

    `gpus` are those of a node, each for one rank; without GPUs a node has one rank.
    `cores` are those of a rank, `memory` GB of a node. `queue` is Slurm's partition,
    `account` LSF's project; `setup` are lines before the start, as "module load cuda".
    `warn`: seconds before the end at which Slurm sends SIGUSR1; the job may be requeued

    Errors: `UsageError` for an unknown scheduler, a launcher that it lacks, numbers and
    names that cannot be. Sources: https://slurm.schedmd.com/sbatch.html and
    https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bsub-options
    """
    choice(scheduler, SCHEDULERS, what="scheduler")
    choice(launcher, SCHEDULERS[scheduler], what=f"launcher in a {scheduler} job")
    sizes = {"nodes": nodes, "cores": cores, "memory": memory, "minutes": minutes}
    names = {"account": account, "queue": queue}
    _refuse(sizes, names, setup)
    fields = {**sizes, **names, "fresh": 1 if restarts else ""}
    fields |= _tasks(launcher, sizes, whole("gpus", gpus, least=0))
    fields |= _warning(scheduler, launcher, warn, minutes)
    start = command(
        launcher,
        script,
        nodes=nodes,
        ranks_per_node=max(gpus, 1),
        cores=cores,
        scheduler=scheduler,
        restarts=restarts,
    )
    if launcher == "torchrun":
        start = _agents(scheduler, start, fields, warned=warn is not None)
    lines = fill(scheduler, fields | {"start": start, "setup": "\n".join(setup)})
    text = JobScript("\n".join([*lines, ""]))
    text.scheduler = scheduler
    return text


def _agents(scheduler, start, fields, *, warned):
    """The command that starts an agent of torchrun on each node, in short lines."""
    start = start.replace(" --rdzv-", " \\\n        --rdzv-", 1)
    if warned:
        start = start.replace("torchrun ", f"torchrun {_HAND_ON} \\\n        ", 1)
    return f"{_ON_EACH_NODE[scheduler].format(**fields)} \\\n    {start}"


def _refuse(sizes, names, setup):
    """Raise `UsageError` for a number, a name or a line that cannot be."""
    for name, value in sizes.items():
        whole(name, value)
    for name, value in names.items():
        if value:
            word(name, value)
    if isinstance(setup, str) or any("\n" in line for line in setup):
        raise UsageError(f"setup is {setup!r:.60}, expected a list of lines")


def _warning(scheduler, launcher, warn, minutes):
    """Return the fields for a signal before the end of a job."""
    if warn is None:
        return dict.fromkeys(("warn", "again", "mode", "grace"), "")
    if scheduler != "slurm" or launcher not in ("srun", "torchrun"):
        raise UsageError(
            f"warn reaches the ranks of srun and torchrun in a slurm job, not those of"
            f" {launcher} in a {scheduler} job"
        )
    if whole("warn", warn, least=_END + 1) >= 60 * minutes:
        raise UsageError(f"warn is {warn} seconds, but the job has {60 * minutes}")
    # else an agent waits 30 seconds for its ranks, and the next turn empties the log
    fields = {"grace": warn - _END if launcher == "torchrun" else ""}
    return fields | {"warn": warn, "again": "requeue", "mode": "append"}


def _tasks(launcher, sizes, gpus):
    """Return what a node and the whole job have, in the words of the schedulers."""
    hours, minutes = divmod(sizes["minutes"], 60)
    ranks = max(gpus, 1)
    nodes = sizes["nodes"]
    # torchrun starts a node's ranks: for the scheduler a node has one task
    tasks, width = (1, ranks) if launcher == "torchrun" else (ranks, 1)
    fields = {
        "hours": f"{hours:02}:{minutes:02}",
        "gpus": gpus or "",
        "tasks": tasks,
        "width": width * sizes["cores"],
        "slots": tasks * nodes,
        "whole_nodes": "",
        "first": "${LSB_MCPU_HOSTS%% *}",  # "node0 2 node1 2": its hosts and slots
    }
    if launcher == "jsrun":
        # it has whole nodes, beside the one on which the script runs
        fields |= {"whole_nodes": nodes, "slots": "", "tasks": "", "gpus": ""}
        fields |= {"first": "$(jsrun --nrs 1 hostname)", "memory": ""}
    return fields
