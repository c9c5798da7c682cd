"""Which versions of torch the course runs with, and what to say of another one."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from course_lib.errors import CourseError, TorchError

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True)
class Range:
    """The versions from `low` on and below `high`, of major and minor number."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def requirement(self) -> str:
        """What pip is given: `torch>=2.11,<2.16`."""
        return f"torch>={_dotted(self.low)},<{_dotted(self.high)}"

    @property
    def words(self) -> str:
        """The first and the last minor version: `2.11 to 2.15`."""
        first, last = _dotted(self.low), _dotted((*self.high[:-1], self.high[-1] - 1))
        return first if first == last else f"{first} to {last}"

    def is_old(self, version: str) -> bool:
        """Return True for a version below the range; `+cu130` and `a0` do not count."""
        return numbers(version) < self.low

    def is_new(self, version: str) -> bool:
        """Return True for a version above the range."""
        return numbers(version)[: len(self.high)] >= self.high


def supported() -> Range | None:
    """Return the range that the package asks for; None where nothing says it.

    A course that is only on `PYTHONPATH` has no metadata: then its pyproject.toml says
    it, if that is here.
    """
    # taken apart here: who lacks torch may lack the library `packaging`, too
    with contextlib.suppress(OSError, importlib.metadata.PackageNotFoundError):
        return parse_range(importlib.metadata.requires("course_lib") or [])
    with contextlib.suppress(OSError):
        text = _PYPROJECT.read_text("utf-8")
        return parse_range(re.findall(r'"(torch\b[^"]*)"', text))
    return None


def parse_range(requirements: list[str]) -> Range | None:
    """Return torch's range in lines as `torch<2.16,>=2.11`; None without two ends."""
    lines = (line for line in requirements if re.match(r"torch\b(?![-_.\[])", line))
    ends = dict(re.findall(r"(>=|<)\s*([\d.]+)", next(lines, "")))
    if ends.keys() != {">=", "<"}:
        return None
    return Range(numbers(ends[">="]), numbers(ends["<"]))


def numbers(version: str) -> tuple[int, ...]:
    """Return `2.11.0a0+git` as (2, 11, 0)."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    assert release, f"{version!r} is no version"
    return tuple(map(int, release[0].split(".")))


def _dotted(numbers):
    return ".".join(map(str, numbers))


def needs() -> str:
    """Return what the course needs: `torch 2.11 to 2.15`, or `torch` alone."""
    found = supported()
    return f"torch {found.words}" if found else "torch"


def install() -> str:
    """Return the command that installs a torch for the course."""
    found = supported()
    return f'pip install "{found.requirement}"' if found else "make setup"


@contextlib.contextmanager
def explained():
    """Let a block that imports torch, or reaches into it, raise one sentence.

    Errors: `TorchError` where torch is missing or broken, or lacks what is used of it.
    """
    try:
        yield
    except (ImportError, OSError, AttributeError, TypeError, RuntimeError) as error:
        sentence = "" if isinstance(error, CourseError) else _sentence(error)
        if not sentence:
            raise
        raise TorchError(sentence) from None


def _sentence(error):
    """Return what to say of an error; "" if it does not come from this torch."""
    torch = sys.modules.get("torch")
    what = str(error).partition("\n")[0]
    version = str(getattr(torch, "__version__", ""))
    if not version:
        if not _of_torch(error):
            return ""
        return (
            f"PyTorch cannot be imported ({what}). The course needs {needs()}:"
            f" {install()}; cl.doctor() says more."
        )
    known = supported()
    outside = known is None or known.is_old(version) or known.is_new(version)
    if not outside and not _of_torch(error):
        return ""
    return (
        f"torch {version} lacks what the course uses of it ({what}). The course runs"
        f" with {needs()}: {install()}; cl.doctor() says more."
    )


def _of_torch(error):
    """Return True if torch raised it, is missing, or lacks the name asked for."""
    holder = getattr(error, "obj", None)
    frames = [frame.f_globals for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = (
        getattr(error, "name", None) if isinstance(error, ImportError) else None,
        getattr(holder, "__name__", None),
        getattr(holder, "__module__", None),
        frames[-1].get("__name__") if frames else None,
    )
    return any(str(name).partition(".")[0] == "torch" for name in names)
