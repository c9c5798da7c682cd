"""What the lessons train on: digits and a text, without a download; larger sets."""

import contextlib
import gzip
import pickle
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.errors import UsageError

_DIGITS = 1797
_IDX = {"MNIST": "MNIST/raw", "FashionMNIST": "FashionMNIST/raw"}
_CIFAR = "cifar-10-batches-py"
NAMES = (*_IDX, "CIFAR10")
# what the text is made of: the code of a character is its place
CHARACTERS = "\n" + "".join(map(chr, range(ord(" "), ord("~") + 1)))


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

    spec = find_spec("sklearn")
    assert spec and spec.origin
    home = Path(spec.origin).parent
    path = home / "datasets" / "data" / "digits.csv.gz"
    return numpy.loadtxt(path, delimiter=",", dtype=numpy.int8)


def text():
    """Return Python's manual of its language, i64[n]: codes of 96 characters.

    A code is a place in `CHARACTERS`: a line's end and what a keyboard prints; the few
    other characters are left out. The manual is what `help("assert")` reads, all topics
    one after another, and comes with Python: 464,551 characters with Python 3.11, other
    versions have other texts.

    Errors: `UsageError` where Python was installed without its manual.
    """
    import torch

    return torch.tensor(_codes())


@cache
def _codes():
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise UsageError(
            "Python's manual is not there: some systems install Python without the"
            " module pydoc_data. Install all of Python's standard library, on Debian"
            " and Ubuntu by `apt install libpython3-stdlib`."
        ) from None
    codes = {character: code for code, character in enumerate(CHARACTERS)}
    pages = "\n\n".join(topics[name] for name in sorted(topics))
    return [codes[character] for character in pages if character in codes]


def pictures(name: str, *, root="data", train=None, validation=None):
    """Return (train, validation): two TensorDatasets of a larger set of images.

    `name` is one of "MNIST", "FashionMNIST" (f32[60000, 1, 28, 28] and 10,000) and
    "CIFAR10" (f32[50000, 3, 32, 32] and 10,000), from 0 to 1; labels are i64. The first
    `train` and `validation` of them, or all. The files lie in `root` as torchvision
    keeps them; if they are not there, torchvision fetches them.

    Errors: `UsageError` without files and without torchvision, or for a damaged file.
    Sources: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner (1998), Gradient-Based Learning
    Applied to Document Recognition; H. Xiao, K. Rasul, R. Vollgraf (2017),
    Fashion-MNIST; A. Krizhevsky (2009), Learning Multiple Layers of Features from Tiny
    Images.
    """
    if name not in NAMES:
        raise UsageError(f"there is no {name!r}: choose from {', '.join(NAMES)}")
    root = Path(root)
    read = _read_cifar if name == "CIFAR10" else _read_idx
    place = root / (_CIFAR if name == "CIFAR10" else _IDX[name])
    try:
        return read(place, True, train), read(place, False, validation)
    except FileNotFoundError:  # not fetched yet, or not to the end
        _download(name, root)
    return read(place, True, train), read(place, False, validation)


def _download(name, root):
    try:
        from torchvision import datasets
    except ImportError:
        raise UsageError(
            f"{name} is not in {root.resolve()}, and torchvision, which would fetch it,"
            " is not installed. Run `%pip install torchvision` in a cell, or copy the"
            " files from a machine that has them."
        ) from None
    getattr(datasets, name)(root, download=True)


def _read_idx(place, train, count):
    """Read the idx format: a magic number, the sizes, then one byte for each pixel."""
    part = "train" if train else "t10k"
    images = _idx(place / f"{part}-images-idx3-ubyte", count)
    labels = _idx(place / f"{part}-labels-idx1-ubyte", count)
    return _dataset(images.unsqueeze(1), labels)


def _idx(path, count):
    """u8[n, …], of which at most `count` come first."""
    import torch

    if not path.is_file():
        path = path.with_name(f"{path.name}.gz")
    with _named(path):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        start = 4 + 4 * content[3]
        if content[:3] != b"\0\0\x08":
            raise ValueError("not the idx format of bytes")
        shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
        values = torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=start)
        return values.view(shape)[:count]


def _read_cifar(place, train, count):
    """Read the Python version of CIFAR-10: pickled rows of red, green and blue."""
    import torch

    names = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
    images, labels = [], []
    for name in names:
        with _named(place / name), open(place / name, "rb") as file:
            part = pickle.load(file, encoding="bytes")
            images.append(torch.as_tensor(part[b"data"]).view(-1, 3, 32, 32))
            labels += part[b"labels"]
    return _dataset(torch.cat(images)[:count], torch.tensor(labels)[:count])


@contextlib.contextmanager
def _named(path):
    """Say which file cannot be read; one that is missing stays that."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # each format and each kind of damage has its own
        raise UsageError(
            f"{path} is damaged or was cut off ({type(error).__name__}: {error})."
            " Remove it and call again."
        ) from None


def _dataset(images, labels):
    import torch

    return torch.utils.data.TensorDataset(images.float() / 255, labels.long())
