"""Figures that move: a reader plays them, steps through them, varies them."""

import importlib

# the scenes, each with the module that holds it, imported at first use
_HOMES = {
    "timeline": "traces",
    "accumulation": "microbatches",
    "buckets": "reducer",
    "dealing": "samplers",
    "memory_bars": "budget",
    "transfers": "traffic",
    "interleaved": "interleaving",
    "pipeline": "pipelines",
    "lost_updates": "races",
    "noise": "gradients",
    "collective": "chunks",
    "all_reduces": "bills",
    "messages": "bills",
    "nodes": "machines",
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
