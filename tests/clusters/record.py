"""Record what launchers tell their ranks, into course_lib/clusters/recorded.json.

`.venv/bin/python -m tests.clusters.record` as root on Debian 12 with openmpi-bin,
mpich, slurm-wlm and iproute2: about a minute. All runs in namespaces of its own: three
nodes on one machine, which differ in their host names and Slurm daemons. What was
constructed from documentation stays in the file as it is.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from course_lib.clusters.environments import RECORDED

ROOT = Path(__file__).resolve().parents[2]
# what tells ranks apart, and what is easily taken for it
MATTERS = re.compile(
    "(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE"
    "|TORCHELASTIC_RUN_ID|OMPI_COMM_WORLD_.*|OMPI_UNIVERSE_SIZE|PMI_RANK|PMI_SIZE"
    "|MPI_LOCALRANKID|MPI_LOCALNRANKS|SLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS"
    "|NNODES|NTASKS_PER_NODE|TASKS_PER_NODE|JOB_ID|JOB_NODELIST|STEP_ID|STEP_NODELIST"
    "|STEP_NUM_NODES|STEP_NUM_TASKS|STEP_TASKS_PER_NODE))"
)
# a file for each rank: launchers cut what ranks print
PROBE = """import json, os
with open(f"$D/ranks/{os.getpid()}", "w") as file:
    json.dump(dict(os.environ), file)
"""
# runs a command on one of the nodes, as ssh does on another machine
AGENT = """#!/bin/sh
node=$1; shift
exec unshare --uts sh -c "hostname $node; exec $*"
"""
OPEN_MPI = "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $D/agent"
OPEN_MPI += " --mca if_base_do_not_resolve 1 --host"
MPICH = "mpirun.mpich -launcher fork -hosts node0,node1"
TORCHRUN = "torchrun --rdzv-backend=c10d --rdzv-endpoint=node0:29601 --rdzv-id=job1"


class Run(NamedTuple):
    """A command, and the rank whose environment is kept; `numbers` are expected.

    They are rank, ranks of all, local rank, ranks of the node, node: known from the
    command. None: not told by the launcher; "error": there is no rank.
    """

    name: str
    launcher: str
    how: str
    command: str
    numbers: tuple | str
    pick: str = ""


RUNS = (
    Run(
        "torchrun on one node",
        "torchrun",
        "--standalone --nproc-per-node=4, rank 2",
        "torchrun --standalone --nproc-per-node=4 $D/probe.py",
        (2, 4, 2, 4, 0),
    ),
    Run(
        "torchrun on two nodes",
        "torchrun",
        "two agents with --nproc-per-node=2, one of their ranks on the second",
        f"for node in node0 node1; do $D/agent $node {TORCHRUN} --nnodes=2"
        " --nproc-per-node=2 $D/probe.py & done; wait",
        (3, 4, 1, 2, 1),
    ),
    Run(
        "torchrun on uneven nodes",
        "torchrun",
        "two agents, --nproc-per-node=3 --node-rank=0 and --nproc-per-node=1"
        " --node-rank=1, rank 3",
        "for i in 0 1; do $D/agent node$i torchrun --nnodes=2 --node-rank=$i"
        " --master-addr=node0 --master-port=29602 --nproc-per-node=$((3 - 2 * i))"
        " $D/probe.py & done; wait",
        (3, 4, 0, 1, 1),
    ),
    Run(
        "torchrun started by srun",
        "torchrun",
        "srun --nodes=2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=2,"
        " rank 2",
        f"srun --nodes=2 --ntasks-per-node=1 {TORCHRUN} --nnodes=2"
        " --nproc-per-node=2 $D/probe.py",
        (2, 4, 0, 2, 1),
    ),
    Run(
        "Open MPI on two nodes",
        "Open MPI",
        "mpirun --map-by ppr:2:node --host node0:2,node1:2, rank 2",
        f"{OPEN_MPI} node0:2,node1:2 --map-by ppr:2:node $P",
        (2, 4, 0, 2, None),
    ),
    Run(
        "Open MPI on uneven nodes",
        "Open MPI",
        "mpirun --host node0:3,node1:2, rank 4",
        f"{OPEN_MPI} node0:3,node1:2 $P",
        (4, 5, 1, 2, None),
    ),
    Run(
        "Open MPI, ranks in turn",
        "Open MPI",
        "mpirun -np 4 --map-by node --host node0:4,node1:4, rank 1",
        f"{OPEN_MPI} node0:4,node1:4 -np 4 --map-by node $P",
        (1, 4, 0, 2, None),
    ),
    Run(
        "MPICH on uneven nodes",
        "MPICH",
        "mpirun -n 5 -ppn 3 -hosts node0,node1, rank 4",
        f"{MPICH} -n 5 -ppn 3 $P",
        (4, 5, 1, 2, None),
    ),
    Run(
        "MPICH, ranks in turn",
        "MPICH",
        "mpirun -n 4 -ppn 1 -hosts node0,node1, rank 2",
        f"{MPICH} -n 4 -ppn 1 $P",
        (2, 4, 1, 2, None),
    ),
    Run(
        "srun on two nodes",
        "Slurm",
        "sbatch --nodes=2 --ntasks-per-node=2, in it srun, rank 3",
        'sbatch --nodes=2 --ntasks-per-node=2 -W --wrap "srun $P"',
        (3, 4, 1, 2, 1),
    ),
    Run(
        "srun on uneven nodes",
        "Slurm",
        "srun --nodes=3 --ntasks=5, rank 4",
        "srun --nodes=3 --ntasks=5 $P",
        (4, 5, 0, 1, 2),
    ),
    Run(
        "srun, ranks in turn",
        "Slurm",
        "srun --nodes=2 --ntasks-per-node=2 --distribution=cyclic, rank 1",
        "srun --nodes=2 --ntasks-per-node=2 --distribution=cyclic $P",
        (1, 4, 0, 2, 1),
    ),
    Run(
        "a smaller step of a job",
        "Slurm",
        "sbatch --nodes=3 --ntasks-per-node=2, in it srun --nodes=1 --ntasks=2"
        " --relative=1, rank 1",
        "sbatch --nodes=3 --ntasks-per-node=2 -W"
        ' --wrap "srun --nodes=1 --ntasks=2 --relative=1 $P"',
        (1, 2, 1, 2, 0),
    ),
    Run(
        "srun with PMI",
        "Slurm",
        "srun --mpi=pmi2 --nodes=2 --ntasks=3, rank 2",
        "srun --mpi=pmi2 --nodes=2 --ntasks=3 $P",
        (2, 3, 0, 1, 1),
    ),
    Run(
        "Open MPI in a Slurm job",
        "Open MPI",
        "sbatch --nodes=2 --ntasks-per-node=2, in it mpirun, rank 3",
        "sbatch --nodes=2 --ntasks-per-node=2 -W"
        ' --wrap "mpirun.openmpi --allow-run-as-root $P"',
        (3, 4, 1, 2, None),
    ),
    Run(
        "MPICH in a Slurm job",
        "MPICH",
        "sbatch --nodes=2 --ntasks-per-node=2, in it mpirun, rank 2",
        'sbatch --nodes=2 --ntasks-per-node=2 -W --wrap "mpirun.mpich $P"',
        (2, 4, 0, 2, None),
    ),
    Run(
        "a batch script without srun",
        "Slurm",
        "sbatch --nodes=2 --ntasks-per-node=2, in it python train.py",
        'sbatch --nodes=2 --ntasks-per-node=2 -W --wrap "$P"',
        "error",
        pick="SLURM_PROCID=0",
    ),
)
_RANK_OF = {
    "torchrun": "RANK",
    "Open MPI": "OMPI_COMM_WORLD_RANK",
    "MPICH": "PMI_RANK",
    "Slurm": "SLURM_PROCID",
}
_FIELDS = ("rank", "world_size", "local_rank", "local_world_size", "node_rank")
_SLURM = """ClusterName=course
SlurmctldHost=node0
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation=$D/state
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/%n.pid
SlurmdSpoolDir=$D/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=node0 NodeAddr=10.9.0.1 Port=17010 CPUs=32 RealMemory=99000 Gres=gpu:4
NodeName=node1 NodeAddr=10.9.0.2 Port=17011 CPUs=32 RealMemory=99000 Gres=gpu:4
NodeName=node2 NodeAddr=10.9.0.3 Port=17012 CPUs=32 RealMemory=99000 Gres=gpu:4
PartitionName=all Nodes=node[0-2] Default=YES State=UP
"""
# addresses beside 127.0.0.1: without, names are not resolved for Slurm, and torchrun
# takes all nodes for one
_NAMESPACE = """
set -e
mount --make-rprivate /
ip link set lo up
ip link add v0 type veth peer name v1
for i in 1 2 3; do ip addr add 10.9.0.$i/24 dev v0; done
ip link set v0 up; ip link set v1 up
mount --bind $D/hosts /etc/hosts
mount --bind $D/nsswitch.conf /etc/nsswitch.conf
export SLURM_CONF=$D/slurm.conf
hostname node0
slurmctld -D > $D/slurmctld.log 2>&1 &
for node in node0 node1 node2; do
    $D/agent $node slurmd -D -N $node > $D/$node.log 2>&1 &
done
for i in $(seq 50); do sinfo -h -o %T 2>&1 | grep -qx idle && break; sleep 0.2; done
"$@"
kill $(jobs -p); wait
"""


def main() -> None:
    """Make the namespaces and record in them; or run a command there, for a look."""
    if sys.argv[1:2] == ["--inside"]:
        return record()
    with tempfile.TemporaryDirectory() as folder:
        files = prepared(Path(folder))
        command = sys.argv[1:] or [sys.executable, "-m", __spec__.name, "--inside"]
        namespaces = "--mount --uts --net --pid --fork --mount-proc --kill-child"
        subprocess.run(
            ["unshare", *namespaces.split(), "bash", "-c", _NAMESPACE, "-", *command],
            env=files,
            check=True,
        )


def prepared(folder):
    """Write the files that the nodes need; the environment of all that runs there."""
    names = "127.0.0.1 localhost\n"
    names += "".join(f"10.9.0.{i + 1} node{i}\n" for i in range(3))
    devices = "".join(f"Name=gpu File={folder}/gpu{i}\n" for i in range(4))
    texts = {
        "probe.py": PROBE.replace("$D", str(folder)),
        "agent": AGENT,
        "hosts": names,
        "gres.conf": devices,
    }
    texts["nsswitch.conf"] = "hosts: files\npasswd: files\ngroup: files\n"
    texts["slurm.conf"] = _SLURM.replace("$D", str(folder))
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "ranks").mkdir()
    for number, device in enumerate(("null", "zero", "full", "random")):
        (folder / f"gpu{number}").symlink_to(f"/dev/{device}")
    python = f"/usr/bin/python3 {folder}/probe.py"
    path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"D": str(folder), "P": python, "PATH": path, "HOME": str(folder)}


def record() -> None:
    """Run all, and write the file; entries keep their places."""
    kept = json.loads(RECORDED.read_text()) if RECORDED.exists() else []
    entries = {entry["name"]: entry for entry in kept}
    tools = versions()
    for run in RUNS:
        env = environment(run)
        print(f"{run.name}: {len(env)} variables", flush=True)
        expected = "error"
        if run.numbers != "error":
            expected = {"launcher": run.launcher, **dict(zip(_FIELDS, run.numbers))}
        entries[run.name] = {
            "name": run.name,
            "launcher": run.launcher,
            "source": f"recorded: {tools[run.launcher]}, {run.how}",
            "env": env,
            "expected": expected,
        }
    text = json.dumps(list(entries.values()), indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", encoding="utf-8")


def environment(run: Run) -> dict[str, str]:
    """What matters of the environment of the rank that is picked."""
    files = Path(os.environ["D"]) / "ranks"
    for path in files.iterdir():
        path.unlink()
    shown = subprocess.run(
        ["bash", "-c", run.command],
        cwd=os.environ["D"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    rank = run.pick or f"{_RANK_OF[run.launcher]}={run.numbers[0]}"
    name, value = rank.split("=")
    every = [json.loads(path.read_text()) for path in files.iterdir()]
    for env in every:
        if env.get(name) == value:
            return {key: env[key] for key in sorted(env) if MATTERS.fullmatch(key)}
    raise SystemExit(f"{run.name}: no {rank} in {len(every)} ranks. {shown.stderr}")


def versions() -> dict[str, str]:
    """The names of the launchers with their versions."""
    patterns = {
        "torchrun": (
            f"{sys.executable} -m pip show torch",
            "PyTorch",
            r"Version: (\S+)",
        ),
        "Open MPI": ("mpirun.openmpi --version", "Open MPI", r"\) (\S+)"),
        "MPICH": ("mpirun.mpich --version", "MPICH", r"Version: +(\S+)"),
        "Slurm": ("sinfo --version", "Slurm", r"(\d\S+)"),
    }
    found = {}
    for launcher, (command, name, pattern) in patterns.items():
        shown = subprocess.run(command.split(), capture_output=True, text=True)
        found[launcher] = f"{name} {re.search(pattern, shown.stdout)[1]}"
    return found


if __name__ == "__main__":
    main()
