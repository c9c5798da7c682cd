"""What the lessons train on: real data that needs no download."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.errors import UsageError

_DIGITS = 1797


def digits(*, validation=360, seed=0):
    """Return (train, validation): two TensorDatasets of handwritten digits.

    Images are f32[n, 1, 8, 8] from 0 (paper) to 1 (ink), labels i64[n] from 0 to 9.
    `validation` of the 1,797 digits are drawn by `seed`; the global random state stays
    as it is. Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten
    Digits", UCI Machine Learning Repository (1998), https://doi.org/10.24432/C50P49,
    the part that scikit-learn carries.
    """
    if not (isinstance(validation, int) and 0 < validation < _DIGITS):
        raise UsageError(
            f"cannot split {_DIGITS:,} digits: found validation={validation!r}, "
            f"expected 1 to {_DIGITS - 1:,}. Try validation=360."
        )
    import torch

    table = torch.tensor(_table())
    images = table[:, :-1].float().reshape(-1, 1, 8, 8) / 16
    labels = table[:, -1].long()
    order = torch.randperm(_DIGITS, generator=torch.Generator().manual_seed(seed))
    parts = order[validation:], order[:validation]
    train, held_out = (
        torch.utils.data.TensorDataset(images[part], labels[part]) for part in parts
    )
    return train, held_out


@cache
def _table():
    """i8[1797, 65], 64 pixels and a label per row: the data file of scikit-learn.

    `load_digits` reads the same file, but importing it takes over a second, and every
    rank that asks for data would pay for that. The server of ranks has read it already.
    """
    import numpy

    home = Path(find_spec("sklearn").origin).parent
    path = home / "datasets" / "data" / "digits.csv.gz"
    return numpy.loadtxt(path, delimiter=",", dtype=numpy.int8)
