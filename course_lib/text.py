"""Words for figures, tables and errors: units, plurals, short forms of values."""

import signal
from collections.abc import Collection

_SECONDS = ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs"))
_TYPES = {
    "float": "f",
    "bfloat": "bf",
    "int": "i",
    "uint": "u",
    "complex": "c",
    "bool": "b",
}


def many(count, noun):
    """Return a number with its noun: `1 rank`, `1,797 samples`, `3 processes`."""
    end = "" if count == 1 else "es" if noun.endswith(("s", "tch")) else "s"
    return f"{count:,} {noun}{end}"


def listed(things):
    """Return things in a row: `0`, `0 and 1`, `0, 1 and 2`."""
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last


def extent(numbers, unit=""):
    """Return `3` when all are equal, else `3 to 5`."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}{unit}" if low == high else f"{low:,} to {high:,}{unit}"


def size(count: float) -> str:
    """Return bytes as people read them, by powers of 1000: `12 B`, `3.5 kB`."""
    scale, unit = byte_unit(count)
    return f"{count:.0f} B" if scale == 1 else f"{count / scale:.3g} {unit}"


def byte_unit(count: float) -> tuple[int, str]:
    """Return how many bytes the unit has in which `count` reads best, and its name."""
    power = next((p for p in range(4) if abs(count) < 999.5 * 1000**p), 4)
    return 1000**power, ("B", "kB", "MB", "GB", "TB")[power]


def unit_of(seconds):
    """Return factor and name of the unit in which `seconds` reads best."""
    return next((scale, unit) for least, scale, unit in _SECONDS if seconds >= least)


def duration(seconds):
    """Say a time in the unit in which it reads best: `1.25 ms`."""
    scale, unit = unit_of(seconds)
    return f"{seconds * scale:.3g} {unit}"


def rank_name(rank):
    """Return `rank 0` for a number; a device keeps its own name."""
    return rank if isinstance(rank, str) else f"rank {rank}"


def rank_noun(rank):
    """Return `rank` for a number, `device` for a name, `stage` for `stage 0`."""
    if not isinstance(rank, str):
        return "rank"
    word, _, number = rank.rpartition(" ")
    return word if word and number.isdigit() else "device" if ":" in rank else "rank"


def rank_order(rank: int | str) -> tuple:
    """Return the key that sorts ranks, then devices by name and index: `cpu` first."""
    if isinstance(rank, int):
        return 0, "", rank
    name, _, index = rank.rpartition(":")
    return (1, name, int(index)) if index.isdigit() else (1, rank, -1)


def ranks_named(ranks: Collection[int]) -> str:
    """Return `rank 3`, or `ranks 0, 2-5`."""
    runs = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs
    ]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(parts)


def sentences(text: str) -> list[str]:
    """Return a line for each sentence: JupyterLab breaks long ones in mid-word."""
    return text.replace(". ", ".\n").splitlines()


def signal_name(number: int) -> str:
    """Return `SIGSEGV`; `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def short(value) -> str:
    """Return a value in one line: a tensor as `f32[8, 4]`, else its repr, cut at 60."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and len(shape):
        return f"{_short_type(dtype)}[{', '.join(map(str, shape))}]"
    if isinstance(value, dict):
        inner = "{" + ", ".join(f"{k!r}: {short(v)}" for k, v in value.items()) + "}"
    elif type(value) in (list, tuple):
        inner = _sequence(value)
    else:
        inner = " ".join(_repr(value).split())
    return inner if len(inner) <= 60 else inner[:57] + "..."


def _sequence(value):
    """`[1, f32[8, 4]]` if it fits, else how many there are and the first."""
    ends = "[]" if isinstance(value, list) else "()"
    whole = ", ".join(map(short, value[:20]))
    if len(value) <= 20 and len(whole) <= 50:
        comma = "," if len(value) == 1 and ends == "()" else ""
        return f"{ends[0]}{whole}{comma}{ends[1]}"
    first = ", ".join(map(short, value[:4]))
    return f"{type(value).__name__} of {len(value)}: {first}"


def _repr(value):
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__}"


def _short_type(dtype):
    name = str(dtype).removeprefix("torch.")
    letters = name.rstrip("0123456789")
    return _TYPES.get(letters, letters) + name[len(letters) :]
