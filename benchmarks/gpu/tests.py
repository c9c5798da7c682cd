"""The tests that need a GPU."""

import subprocess
import sys


def main(out: str) -> int:
    """Run them, and show what pytest says."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-n", "6"]
    command += ["--ignore=tests/test_book.py", "--timeout=60", "-p", "no:cacheprovider"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
