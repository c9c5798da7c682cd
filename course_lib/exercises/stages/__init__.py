"""The checks of the exercises, one module per stage."""

import pkgutil


def names() -> list[str]:
    """The names of the modules of all stages, in order, to be imported."""
    modules = pkgutil.iter_modules(__path__, f"{__name__}.")
    return sorted(module.name for module in modules)
