"""The training of lesson 00, which learners copy, on one to four ranks."""

import pytest
import torch

import course_lib as cl
from tests import lesson_code

CELLS = "setup", "data", "model", "alone", "join", "train"


@pytest.fixture(scope="module")
def lesson():
    """What the cells of the lesson define, without its figures."""
    return lesson_code.defined("00", CELLS)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_all_ranks_end_with_one_model(lesson, ranks):
    first, *others = cl.launch(lesson["train"], world_size=ranks, epochs=1)
    for name, weights in first.items():
        assert all(torch.equal(weights, other[name]) for other in others)
        alone = lesson["train_alone"](epochs=1).state_dict()[name]
        # with three ranks a batch holds 63 samples, so these are other steps
        assert torch.allclose(weights, alone, atol=1e-5) == (ranks != 3)
