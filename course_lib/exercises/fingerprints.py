"""Known mistakes: the one that left the same traces as an answer, and its hint.

A mistake is a wrong answer with a hint. What the judge finds in it, the `clue` of its
`Wrong`, is kept beside the exercise as a fingerprint: numbers, text, and of tensors a
few fixed projections. The nearest one is taken, by distance: the last digits of
another processor change nothing.
"""

import functools
import json
import math
import re

import torch

from course_lib.exercises import folders

_PROJECTIONS = 8
NEAR = 0.02  # distance of two fingerprints of one mistake, from 0 to 1
_ROUNDED = 1e-5  # what differs by less differs by last digits, which are the machine's
_OTHER = 0.5  # what else was seen may differ by this
_ALIKE = 0.25  # of what was raised: other names in one message
# what Python 3.14 says in place of earlier words, and what it says beside them
_NOT_FOUND = re.compile(r"it's not found as (\w+)\.(\w+)")
_WITHIN = re.compile(r"^when serializing .*", re.MULTILINE)


def features(value):
    """Return a clue as JSON can hold it: a dict of tensors as one projected vector."""
    if torch.is_tensor(value):
        return _projected([value])
    if isinstance(value, dict):
        tensors = [part for part in value.values() if torch.is_tensor(part)]
        if tensors and len(tensors) == len(value):
            return _projected(tensors)
        return {str(key): features(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [features(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int | str | None) else str(value)


def _projected(tensors):
    """Sums over a vector with the signs and sizes of cosines, the last its length."""
    vector = torch.cat([part.detach().flatten().double().cpu() for part in tensors])
    if not vector.isfinite().all():
        return {"numbers": len(vector), "finite": False}
    places = torch.arange(1, len(vector) + 1, dtype=torch.float64)
    steps = torch.arange(1, _PROJECTIONS + 1, dtype=torch.float64).sqrt()
    waves = torch.cos(2 * math.pi * steps[:, None] * places * 0.618034)
    sums = [*(waves @ vector).tolist(), vector.norm().item()]
    return {"numbers": len(vector), "vector": [float(f"{x:.6g}") for x in sums]}


def distance(one, other) -> float:
    """Return from 0, the same, to 1, nothing alike, how far two features are apart.

    Of a list it is the mean of its parts, of a dict the largest one: all must agree.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if "vector" in one and "vector" in other:
            return _apart(one, other)
        names = one.keys() | other.keys()
        return max((distance(one.get(n), other.get(n)) for n in names), default=0.0)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return 1.0
        return sum(map(distance, one, other)) / max(1, len(one))
    if _is_number(one) and _is_number(other):
        return min(1.0, abs(one - other) / max(abs(one), abs(other), 1e-12))
    return float(one != other)


def _apart(one, other):
    if one["numbers"] != other["numbers"]:
        return 1.0
    apart = math.dist(one["vector"], other["vector"])
    return min(1.0, apart / max(math.hypot(*other["vector"]), _ROUNDED))


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def words(message: str) -> list[str]:
    """Return the words of an error's message, each once, without numbers."""
    message = _WITHIN.sub("", re.sub(r"0x[0-9a-f]+", "", message))
    message = _NOT_FOUND.sub(r"attribute lookup \2 on \1 failed", message)
    message = message.replace("float division", "division")
    return sorted(set(re.findall(r"[A-Za-z_]+", message)))


def _unlike(one, other):
    """The distance of two failures: the kind of error, and the words of its message."""
    if one["error"] != other["error"]:
        return 1.0
    first, second = set(one["words"]), set(other["words"])
    return 1 - len(first & second) / max(1, len(first | second))


@functools.cache
def known(exercise: str) -> list[dict]:
    """Return the mistakes of an exercise: their names, hints and fingerprints."""
    path = folders.folder(exercise) / "mistakes.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def of(wrong) -> dict | None:
    """Return the fingerprint of a mistake; None if the judge gives no clue to it."""
    if wrong.clue is None:
        return None
    if wrong.failed:
        return {"failed": wrong.clue}
    also = features(wrong.also)
    return {"case": wrong.case, "clue": features(wrong.clue), "also": also}


def nearest(exercise: str, found: dict | None) -> dict | None:
    """Return the known mistake with this fingerprint, or None."""
    if found is None:
        return None
    ranked = [(_distances(found, one), one) for one in known(exercise)]
    close = [row for row in ranked if row[0]]
    return min(close, key=lambda row: row[0])[1] if close else None


def _distances(found, known):
    """How far apart two mistakes are, what decides first; nothing if they are too far.

    Of several that the clue does not tell apart, what else was seen decides.
    """
    if "failed" in found and "failed" in known:
        apart = _unlike(found["failed"], known["failed"])
        return (apart,) if apart <= _ALIKE else ()
    if "failed" in found or found["case"] != known.get("case"):
        return ()
    apart = distance(found["clue"], known["clue"])
    other = distance(found["also"], known["also"]) if apart <= NEAR else 1.0
    return (round(apart / NEAR), other, apart) if other <= _OTHER else ()
