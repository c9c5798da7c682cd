"""Run Python before C++ ends a process for an exception that nobody catches.

gloo throws in a thread of its own when a message does not fit; std::terminate follows,
then SIGABRT, and what PyTorch recorded is lost with the process.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress

_LIBRARY = "libc++.1.dylib" if sys.platform == "darwin" else "libstdc++.so.6"
_Handler = ctypes.CFUNCTYPE(None)
_kept = []  # C++ holds no reference


def before_terminate(say: Callable[[], None]) -> None:
    """Let this process call `say` before std::terminate ends it, where that can be.

    Not where CUDA may be in use: `say` needs the interpreter lock, which a thread that
    waits for a GPU can hold for ever.
    """
    import torch

    if torch.cuda.device_count():
        return
    with suppress(OSError, AttributeError):
        set_terminate = ctypes.CDLL(_LIBRARY)._ZSt13set_terminatePFvvE  # its C++ name
        set_terminate.restype, set_terminate.argtypes = _Handler, [_Handler]
        _kept.append(_Handler(lambda: _end(say)))
        _kept.append(set_terminate(_kept[-1]))


def _end(say):
    say()
    usual = _kept[-1]
    usual() if usual else os.abort()  # prints what was thrown, then aborts
