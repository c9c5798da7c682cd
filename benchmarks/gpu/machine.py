"""Which GPU, which driver, which versions; what the doctor says."""

import importlib.metadata
import platform
import shutil
import subprocess
import sys

from benchmarks.gpu.keeping import Findings

_COMMANDS = (
    "nvidia-smi",
    "nvidia-smi topo -m",
    "nvidia-smi --query-gpu=index,uuid,name,memory.total --format=csv,noheader,nounits",
    "nvidia-smi --query-gpu=driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,"
    "power.limit,ecc.mode.current,mig.mode.current,compute_mode --format=csv",
    "uname -a",
    "df -h /dev/shm /tmp",
)
_PACKAGES = ("torch", "numpy", "matplotlib", "ipykernel", "pytest", "nbclient")
_PACKAGES += ("scikit-learn",)


def main(out: str) -> None:
    """Ask commands, torch and the doctor."""
    findings = Findings(out, "machine")
    for command in _COMMANDS:
        if not shutil.which(command.split()[0]):
            print(f"{command}: there is no such program here")
            continue
        with findings.attempt(command):
            words = command.split()
            done = subprocess.run(words, capture_output=True, text=True, timeout=10)
            print(done.stdout + done.stderr)
            findings.keep(command, done.stdout + done.stderr)
    findings.keep("python", platform.python_version())
    findings.keep("packages", {name: version(name) for name in _PACKAGES})
    # on a disk that is cold the import takes long, so these two come last
    with findings.attempt("torch"):
        import torch

        cuda = torch.cuda
        findings.keep("torch", [torch.__version__, torch.version.cuda])
        findings.keep("gpus", cuda.device_count())
        if cuda.device_count():
            findings.keep("nccl", cuda.nccl.version())
            findings.keep("cudnn", torch.backends.cudnn.version())
            findings.keep("properties", str(cuda.get_device_properties(0)))
    ask_doctor(findings)


def ask_doctor(findings: Findings) -> None:
    """Keep what the course's doctor says of the machine."""
    with findings.attempt("doctor"):
        import course_lib as cl

        report = cl.doctor()
        print(report)
        findings.keep("doctor", str(report))


def version(name: str) -> str:
    """The version of a package; "" where it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1])
