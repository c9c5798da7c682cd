"""The tests that need a GPU."""

import os
import subprocess
import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "tests"


def main(out: str) -> int:
    """Run them, and show what pytest says."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--timeout=60"]
    # a worker imports torch, so a few cores run them in one process
    command += ["-n", str(min(6, (os.cpu_count() or 1) // 2 - 1)), *files()]
    return subprocess.run([*command, "-p", "no:cacheprovider"], check=False).returncode


def files() -> list[str]:
    """Those that have such tests: to collect all of them takes long."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in _TESTS.rglob("*.py"))
    return sorted(str(path) for path, text in texts if "pytest.mark.gpu" in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
