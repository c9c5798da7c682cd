"""What every part shares: findings that are written as they come, and a stopwatch."""

import contextlib
import json
import time
import traceback
from pathlib import Path


class Findings:
    """Findings of one part, by name; each is printed and written at once."""

    def __init__(self, out: str, part: str):
        self.path = Path(out, "findings.json")
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.all = found | {part: {}}
        self.rows = self.all[part]

    def keep(self, name: str, value) -> None:
        """Keep a value that JSON can hold."""
        self.rows[name] = value
        text = json.dumps(value, default=str)
        print(f"{name}: {text if len(text) < 600 else text[:600] + ' …'}", flush=True)
        self.path.write_text(json.dumps(self.all, indent=1, default=str))

    @contextlib.contextmanager
    def attempt(self, name: str):
        """Keep the error of the block, if it raises one, and go on."""
        try:
            yield
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self.keep(f"{name} FAILED", text[-3000:])


def seconds(call) -> tuple[float, object]:
    """How long a call took, and what it returned."""
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value
