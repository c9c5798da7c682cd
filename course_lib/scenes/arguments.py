"""What scenes are called with: numbers and switches, one value or several."""

from course_lib.errors import UsageError
from course_lib.text import short


def several(given) -> list:
    """Return one value or several as a list."""
    return list(given) if isinstance(given, list | tuple | range) else [given]


def whole_numbers(name: str, given, *, most: int, least: int = 1) -> list[int]:
    """Return one whole number or several as a list, after a check of each."""
    numbers = several(given)
    for value in numbers:
        if type(value) is not int or not least <= value <= most:
            raise UsageError(
                f"{name} cannot be {short(value)}: expected a whole number from {least}"
                f" to {most:,}"
            )
    return numbers


def real_number(name: str, value, *, least: float = 0, most: float = 1e18) -> float:
    """Return a number, after a check."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not least <= value <= most:
        raise UsageError(
            f"{name} cannot be {short(value)}: expected a number from {least:g} to"
            f" {most:g}"
        )
    return value


def switches(name: str, given) -> list[bool]:
    """Return True or False, or both in an order, as a list."""
    values = several(given)
    for value in values:
        if not isinstance(value, bool):
            raise UsageError(f"{name} cannot be {short(value)}: expected True or False")
    return values
