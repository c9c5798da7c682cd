"""Which GPU, which driver, which versions; what the doctor says."""

import importlib.metadata
import platform
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


def main(out: str) -> None:
    """Ask commands, torch and the doctor."""
    findings = Findings(out, "machine")
    for command in _COMMANDS:
        with findings.attempt(command):
            done = subprocess.run(
                command.split(), capture_output=True, text=True, timeout=10
            )
            print(done.stdout + done.stderr)
            findings.keep(command, done.stdout + done.stderr)
    with findings.attempt("torch"):
        import torch

        cuda = torch.cuda
        findings.keep("python", platform.python_version())
        findings.keep("torch", [torch.__version__, torch.version.cuda])
        findings.keep("gpus", cuda.device_count())
        if cuda.device_count():
            findings.keep("nccl", cuda.nccl.version())
            findings.keep("cudnn", torch.backends.cudnn.version())
            findings.keep("properties", str(cuda.get_device_properties(0)))
    names = ("numpy", "matplotlib", "ipykernel", "pytest", "nbclient", "scikit-learn")
    versions = {name: importlib.metadata.version(name) for name in names}
    findings.keep("packages", versions)
    with findings.attempt("doctor"):
        import course_lib as cl

        report = cl.doctor()
        print(report)
        findings.keep("doctor", str(report))


if __name__ == "__main__":
    main(sys.argv[1])
