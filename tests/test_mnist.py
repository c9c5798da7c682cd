"""Larger sets of images, read from small files in the formats of their authors."""

import gzip
import pickle
import struct
import sys
import types

import numpy as np
import pytest
import torch

import course_lib as cl
from course_lib.errors import UsageError

IDX = {"MNIST": "MNIST/raw", "FashionMNIST": "FashionMNIST/raw"}
COUNTS = {"train": 6, "t10k": 3}


def values(*shape):
    """Bytes that differ everywhere, the first 0 and the last 255."""
    return np.linspace(0, 255, np.prod(shape)).astype(np.uint8).reshape(shape)


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def write_idx(root, name="MNIST", *, packed=False):
    """The four files of MNIST, each of a few images; their folder."""
    place = root / IDX[name]
    place.mkdir(parents=True)
    for part, count in COUNTS.items():
        parts = {"images-idx3": values(count, 28, 28), "labels-idx1": np.arange(count)}
        for kind, array in parts.items():
            path, content = f"{part}-{kind}-ubyte", idx(array.astype(np.uint8))
            if packed:
                path, content = f"{path}.gz", gzip.compress(content)
            (place / path).write_bytes(content)
    return place


def write_cifar(root):
    """The six files of CIFAR-10, each of two images; their folder."""
    place = root / "cifar-10-batches-py"
    place.mkdir()
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        part = {b"data": values(2, 3072), b"labels": [number, 9]}
        (place / name).write_bytes(pickle.dumps(part, protocol=2))
    return place


@pytest.fixture
def no_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)


@pytest.fixture
def torchvision(monkeypatch):
    """A torchvision whose sets write their files; what it was asked for."""
    asked = []

    def fetch(name, write):
        def make(root, *, download):
            asked.append((name, download))
            write(root)

        return make

    sets = {name: fetch(name, lambda root: write_idx(root)) for name in IDX}
    sets["CIFAR10"] = fetch("CIFAR10", write_cifar)
    module = types.ModuleType("torchvision")
    module.datasets = types.SimpleNamespace(**sets)
    monkeypatch.setitem(sys.modules, "torchvision", module)
    return asked


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", IDX)
def test_idx_files_become_images_from_0_to_1_and_labels(tmp_path, name, packed):
    write_idx(tmp_path, name, packed=packed)
    for part, count in zip(cl.pictures(name, root=tmp_path), (6, 3), strict=True):
        images, labels = part.tensors
        assert images.shape == (count, 1, 28, 28) and images.dtype == torch.float32
        expected = torch.from_numpy(values(count, 1, 28, 28)).float() / 255
        torch.testing.assert_close(images, expected)
        assert (images.min(), images.max()) == (0, 1)
        assert labels.tolist() == list(range(count)) and labels.dtype == torch.int64


def test_cifar_has_three_colours_and_joins_its_five_files_in_order(tmp_path):
    write_cifar(tmp_path)
    train, validation = cl.pictures("CIFAR10", root=tmp_path)
    images, labels = train.tensors
    assert images.shape == (10, 3, 32, 32) and images.dtype == torch.float32
    assert labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert labels.dtype == torch.int64
    red, green, blue = torch.from_numpy(values(2, 3, 1024)[0]).float() / 255
    torch.testing.assert_close(images[0].flatten(1), torch.stack((red, green, blue)))
    assert validation.tensors[1].tolist() == [5, 9]


@pytest.mark.parametrize(
    "name, write", [("MNIST", write_idx), ("CIFAR10", write_cifar)]
)
def test_the_first_of_them_can_be_asked_for(tmp_path, name, write):
    write(tmp_path)
    parts = cl.pictures(name, root=str(tmp_path), train=3, validation=1)
    every = cl.pictures(name, root=tmp_path)
    for part, whole, count in zip(parts, every, (3, 1), strict=True):
        for few, tensor in zip(part.tensors, whole.tensors, strict=True):
            assert few.equal(tensor[:count])


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="no 'CIFAR': choose from MNIST, FashionMNIST"):
        cl.pictures("CIFAR")


@pytest.mark.parametrize("name", [*IDX, "CIFAR10"])
def test_without_files_and_torchvision_the_way_out_is_named(
    tmp_path, no_torchvision, name
):
    said = f"{name} is not in {tmp_path}, and torchvision.*%pip install torchvision"
    with pytest.raises(UsageError, match=said):
        cl.pictures(name, root=tmp_path)


def test_files_that_are_there_need_no_torchvision(tmp_path, no_torchvision):
    write_cifar(tmp_path)
    assert len(cl.pictures("CIFAR10", root=tmp_path)[0]) == 10


@pytest.mark.parametrize("name, length", [("MNIST", 6), ("CIFAR10", 10)])
def test_missing_files_are_fetched_by_torchvision_once(
    tmp_path, torchvision, name, length
):
    for _ in range(2):
        assert len(cl.pictures(name, root=tmp_path)[0]) == length
    assert torchvision == [(name, True)]


def test_a_download_that_was_interrupted_goes_on(tmp_path, monkeypatch, torchvision):
    (tmp_path / "cifar-10-batches-py").mkdir()
    cifar = sys.modules["torchvision"].datasets

    def resume(root, *, download):
        (root / "cifar-10-batches-py").rmdir()
        write_cifar(root)

    cifar.CIFAR10 = resume
    assert len(cl.pictures("CIFAR10", root=tmp_path)[0]) == 10


@pytest.mark.parametrize("length", [0, 3, 10, 16, -1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_was_cut_off_is_named(tmp_path, packed, length):
    place = write_idx(tmp_path, packed=packed)
    path = place / ("train-images-idx3-ubyte" + ".gz" * packed)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UsageError, match=f"{path} is damaged .* Remove it") as caught:
        cl.pictures("MNIST", root=tmp_path)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("content", [b"<html>404</html>", b"\0\0\x0d\x01" + 9 * b"\0"])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    path = write_idx(tmp_path) / "t10k-labels-idx1-ubyte"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"{path} is damaged.*not the idx format"):
        cl.pictures("MNIST", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>", pickle.dumps({"labels": []})])
def test_a_damaged_file_of_cifar_is_named(tmp_path, content):
    path = write_cifar(tmp_path) / "data_batch_3"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"{path} is damaged .* Remove it"):
        cl.pictures("CIFAR10", root=tmp_path)
