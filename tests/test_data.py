"""Digits: shapes, ranges, a split by seeds alone; a text, character by character."""

import subprocess
import sys

import pytest
import torch

from course_lib import data
from course_lib.errors import UsageError


def test_digits_are_images_of_8_by_8_in_0_to_1_with_labels_0_to_9():
    for part, length in zip(data.digits(), (1437, 360), strict=True):
        images, labels = part.tensors
        assert images.shape == (length, 1, 8, 8) and images.dtype == torch.float32
        assert (images.min(), images.max()) == (0, 1)
        assert labels.shape == (length,) and labels.dtype == torch.int64
        assert labels.unique().tolist() == list(range(10))


def test_train_and_validation_are_together_all_the_digits():
    from sklearn.datasets import load_digits

    parts = [part.tensors[0].flatten(1) for part in data.digits(validation=97)]
    found = torch.cat(parts).mul(16).to(torch.int64).tolist()
    assert len(parts[1]) == 97
    assert sorted(found) == sorted(load_digits().data.astype(int).tolist())


def test_digits_come_without_the_second_that_scikit_learn_needs():
    code = "import course_lib as cl, sys; cl.digits(); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_an_image_keeps_its_own_label():
    from sklearn.datasets import load_digits

    known = load_digits()
    pairs = {(*row, label) for row, label in zip(known.data, known.target, strict=True)}
    images, labels = data.digits()[0].tensors
    rows = images.flatten(1).mul(16).tolist()
    assert all((*r, n) in pairs for r, n in zip(rows, labels.tolist(), strict=True))


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    labels = [data.digits(seed=seed)[1].tensors[1] for seed in (0, 0, 1)]
    assert labels[0].equal(labels[1])
    assert not labels[0].equal(labels[2])


def test_the_split_is_shuffled():
    from sklearn.datasets import load_digits

    train, _ = data.digits(validation=1)
    assert train.tensors[1].tolist() != load_digits().target[1:].tolist()


def test_digits_leave_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    data.digits(seed=7)
    assert torch.random.get_rng_state().equal(before)


@pytest.mark.parametrize("validation", [0, -1, 1797, 0.2, "360"])
def test_a_split_without_digits_on_both_sides_is_refused(validation):
    with pytest.raises(ValueError, match="cannot split 1,797 digits"):
        data.digits(validation=validation)


def test_the_text_is_the_manual_that_comes_with_python():
    codes = data.text()
    assert codes.dtype == torch.int64 and codes.dim() == 1 and len(codes) > 300_000
    assert len(data.CHARACTERS) == 96 == len(set(data.CHARACTERS))
    read = "".join(data.CHARACTERS[code] for code in codes[:200])
    assert read.startswith('The "assert" statement\n***')
    used = codes.unique().tolist()
    assert used[0] == 0 and used[-1] <= 95 and len(used) > 90


def test_the_text_is_the_same_each_time_and_nobody_can_spoil_it():
    codes = data.text()
    codes.zero_()
    assert data.text().any() and torch.equal(data.text(), data.text())


def test_python_without_its_manual_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    data._codes.cache_clear()
    with pytest.raises(UsageError, match="libpython3-stdlib"):
        data.text()
