"""`python -m benchmarks.gpu [--out FOLDER] [parts]`: all that needs a GPU, in minutes.

Each part is a process with a limit of its own; what a part found so far is kept, and
what was not reached is named. Nothing is installed and nothing is fetched.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# what each part asks, and the seconds that it may take
PARTS = {
    "machine": 10,
    "tests": 60,
    "ranks": 90,
    "notebooks": 150,
    "truth": 100,
    "traces": 60,
}
_MOST = 480  # seconds of all parts together


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; the number of those that did not end well comes back."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    began, bad = time.monotonic(), []
    with open(options.out / "log.txt", "w", encoding="utf-8") as log:

        def say(line):
            print(line, flush=True)
            print(line, file=log, flush=True)

        for part in options.parts:
            left = options.seconds - (time.monotonic() - began)
            if left < 5:
                say(f"== {part}: not reached")
                bad.append(part)
                continue
            start = time.monotonic()
            ended = _run(part, options.out, limit=min(PARTS[part], left), say=say)
            say(f"== {part}: {ended}, {time.monotonic() - start:.0f} s")
            if ended != "done":
                bad.append(part)
        say(f"== all: {time.monotonic() - began:.0f} s; not done: {bad or 'none'}")
    return len(bad)


def _options(arguments):
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--out", type=Path, default=Path("gpu"), help="where to write")
    parser.add_argument("--seconds", type=float, default=_MOST, help="of all parts")
    options = parser.parse_args(arguments)
    options.parts = options.parts or list(PARTS)
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    return options


def _run(part, out, *, limit, say):
    """Run one part, passing on its lines; how it ended comes back."""
    command = [sys.executable, "-u", "-m", f"benchmarks.gpu.{part}", str(out)]
    process = subprocess.Popen(
        ["timeout", "--kill-after=3", str(int(limit)), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    for line in process.stdout:
        say(line.rstrip("\n")[:2000])
    code = process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what it may have left
    except ProcessLookupError:
        pass
    if code in (124, 137):
        return f"stopped at its limit of {limit:.0f} s"
    return "done" if code == 0 else f"ended with exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
