"""The tests that need a GPU."""

import subprocess
import sys


def main(out: str) -> int:
    """Run them, and keep what pytest says."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"]
    command += ["--ignore=tests/test_book.py", "--timeout=60", "-n", "6", "-x"]
    command = [word for word in command if word != "-x"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
