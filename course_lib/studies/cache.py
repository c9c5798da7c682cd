"""Results on disk, found again by the content of what they were computed from."""

# joblib.Memory would keep results, too, but it unpickles what it reads, which runs the
# code in a file that somebody else wrote, and prints a traceback for a damaged one
import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

_WRITING = 600  # seconds that writing a file takes at most


def folder() -> Path:
    """Return where results lie: `COURSE_LIB_CACHE`, or in the user's cache."""
    if chosen := os.environ.get("COURSE_LIB_CACHE"):
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "course_lib"


def digest(parts: Iterable) -> str:
    """Return a name for the content of tensors, and of values by their `repr`."""
    total = hashlib.sha256()
    for part in parts:
        if torch.is_tensor(part):
            content = part.detach().cpu().contiguous()
            total.update(f"{content.dtype}{list(content.shape)}".encode())
            total.update(content.numpy().tobytes())
        else:
            total.update(repr(part).encode())
        total.update(b"\0")  # so that "ab", "c" is not "a", "bc"
    return total.hexdigest()[:32]


def fetch(name: str, compute: Callable) -> dict:
    """Return what `compute()` gives, a dict of tensors and values, kept by `name`.

    What cannot be read is computed again; where nothing can be written, nothing is
    kept.
    """
    value = _read(name)
    if value is None:
        value = compute()
        # RuntimeError: torch's own for a full disk, and where there is no home
        with contextlib.suppress(OSError, RuntimeError):
            _write(folder() / f"{name}.pt", value)
    return value


def _read(name):
    """Return what is kept under `name`, or None."""
    try:
        value = torch.load(folder() / f"{name}.pt", weights_only=True)
    except Exception:  # not there, cut off, or of another version: torch raises many
        return None
    return value if isinstance(value, dict) else None


def _write(path, value):
    """Write the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep_up(path.parent)
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with open(handle, "wb") as file:
            torch.save(value, file)
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)  # it is in its place if all went well


def _sweep_up(place):
    """Remove what a process left that was killed while it wrote."""
    for part in place.glob("*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _WRITING:
                part.unlink()
