"""What to do when a rank found no room: in shared memory, on a disk."""

import os
import tempfile

_SPENT = (
    "No space left on device",
    "unexpected pos",  # torch.save on a full disk
    "PytorchStreamWriter failed",
)
_SHARED = ("shared memory", "Bus error")
_SHM = "/dev/shm"
_LITTLE = 1 << 20  # bytes free


def advice(text: str) -> list[str]:
    """Lines that say which place is full and what helps, for the message of an error.

    Nothing if the message does not tell of a lack of room.
    """
    lacks = any(phrase in text for phrase in _SPENT)
    if any(phrase in text for phrase in _SHARED) or (lacks and _is_full(_SHM)):
        return [_about_shared()]
    folders = dict.fromkeys([_temporary(), os.curdir]) if lacks else []
    return [
        f"{folder} has no room left: remove files there, or write elsewhere"
        " (the variable TMPDIR names the folder for temporary files)."
        for folder in folders
        if folder and _is_full(folder)
    ]


def _about_shared():
    free, size = _room(_SHM)
    return (
        f"Shared memory, {_SHM}, has {_mb(free)} of {_mb(size)} free. Tensors shared"
        " between processes, and batches of DataLoader workers, need room there:"
        " num_workers=0 needs none, docker run --shm-size=2g gives more."
    )


def _temporary():
    try:
        return tempfile.gettempdir()
    except OSError:
        return None


def _is_full(folder):
    return _room(folder)[0] < _LITTLE


def _room(folder):
    """Bytes free and bytes in all; plenty where that cannot be asked."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return _LITTLE, _LITTLE
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


def _mb(size):
    return f"{size / 1e6:,.1f} MB"
