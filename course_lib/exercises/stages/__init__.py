"""The checks of exercises that have no judge yet, one module per stage."""

import pkgutil
import re
from pathlib import Path

_OBSERVED = Path(__file__).parents[1] / "observe"


def own() -> list[str]:
    """The names of the modules of the stages here, in order, to be imported."""
    modules = pkgutil.iter_modules(__path__, f"{__name__}.")
    return sorted(module.name for module in modules)


def names() -> list[str]:
    """All that runs in the ranks of checks, to be imported ahead."""
    modules = (module.name for module in pkgutil.iter_modules([str(_OBSERVED)]))
    seen = sorted(name for name in modules if re.fullmatch(r"e\d+_\d+[a-z]?", name))
    package = __name__.replace("stages", "observe")
    return [*own(), *(f"{package}.{name}" for name in seen)]
