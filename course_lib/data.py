"""What the lessons train on: real data that needs no download."""

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
    # scikit-learn takes a second to import, so only who asks for data pays
    import torch
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.tensor(loaded.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(loaded.target, dtype=torch.int64)
    order = torch.randperm(_DIGITS, generator=torch.Generator().manual_seed(seed))
    parts = order[validation:], order[:validation]
    train, held_out = (
        torch.utils.data.TensorDataset(images[part], labels[part]) for part in parts
    )
    return train, held_out
