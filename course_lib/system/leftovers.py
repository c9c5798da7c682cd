"""What processes that are killed leave in shared memory and temporary folders.

A shared tensor is a file of /dev/shm under the strategy `file_system`. A process of
PyTorch's, torch_shm_manager, removes it, but only two seconds after the last user.
"""

import contextlib
import glob
import os
import re
import shutil
import tempfile

_TIDY = ("torch_shm_manager", "multiprocessing.resource_tracker")
_TENSORS = "/dev/shm/torch_*"
_MAKER = re.compile(r"/torch_(\d+)_")
_SOCKETS = "torch-shm-dir-*/manager.sock"


def tidies(pid: int) -> bool:
    """True for a process that removes what others have shared."""
    command = _read(f"/proc/{pid}/cmdline")
    return any(name in command for name in _TIDY)


def remove(makers: set[int], since: float) -> None:
    """Remove the shared tensors of `makers`, and folders of managers that are gone.

    Only folders made after the time `since` count: they are of this launch.
    """
    for path in glob.glob(_TENSORS):
        maker = _MAKER.search(path)
        if maker and int(maker[1]) in makers:
            with contextlib.suppress(OSError):
                os.unlink(path)
    in_use = _read("/proc/net/unix")
    for path in _sockets():
        with contextlib.suppress(OSError):
            if path not in in_use and os.stat(path).st_mtime > since:
                shutil.rmtree(os.path.dirname(path))


def _sockets():
    try:
        return glob.glob(os.path.join(tempfile.gettempdir(), _SOCKETS))
    except OSError:  # no temporary folder can be written
        return []


def _read(path):
    try:
        # the names of sockets and programs may be any bytes
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
