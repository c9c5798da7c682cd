"""Each row of docs/virtual-gpus.md holds."""

import pytest

from tests import capabilities
from tests.capabilities.rows import ROWS, raises


@pytest.mark.parametrize("row", ROWS, ids=[row.prove.__name__ for row in ROWS])
def test_a_virtual_gpu_does_what_the_page_says(devs, row):
    if row.kind == "refused":
        raises(lambda: row.prove(devs), row.sentence)
    else:
        row.prove(devs)


def test_the_page_has_each_row_with_its_kind_and_its_sentence():
    text = capabilities.page()
    for row in ROWS:
        assert f"| {row.what} | {row.kind} | " in text and row.sentence in text


def test_each_row_is_there_once_and_proves_something_of_its_own():
    assert len({row.what for row in ROWS}) == len(ROWS)
    assert len({row.prove.__name__ for row in ROWS}) == len(ROWS)


def test_each_row_belongs_to_an_area_of_the_page():
    modules = {area.__name__ for area in capabilities.AREAS.values()}
    assert {row.prove.__module__ for row in ROWS} == modules
