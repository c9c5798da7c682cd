"""What an answer returns is bounded before anything is computed from it."""

import functools
import itertools
import pickle
from unittest import mock

import numpy
import pytest
import torch

from course_lib.exercises import attempt
from course_lib.exercises.checking import exercises
from course_lib.exercises.values import BYTES, CHARACTERS, PARTS, Other, plain
from tests import answers
from tests.checking import _function, outcome

# expressions, since an answer is a function of a notebook
HOSTILE = {
    "a long list": "[0] * 3_000_000",
    "a long text": "'x' * 24_000_000",
    "lists of lists": "functools.reduce(lambda v, _: [v] * 10_000, range(6), 0)",
    "a list in itself": "(lambda v: v.append(v) or v)([])",
    "a tensor that is larger than memory": "torch.zeros(1).expand(10**12)",
    "a tensor without numbers": "{'0.weight': torch.zeros(3, device='meta')}",
    "a number of many digits": "1 << 1_000_000",
    "an endless generator": "(i for i in itertools.count())",
    "not a number": "float('nan')",
    "a list that lies": "type('L', (list,), {'__iter__': lambda s: 1 / 0})([3])",
    "a number like all": "type('E', (int,), {'__eq__': lambda s, o: True})(3)",
}
_IMPORTS = "import functools, itertools\nimport torch\n"
_MOST = BYTES + 2_000_000  # bytes of what comes back from all ranks
_LONG = 300  # seconds: nothing here takes so long that does not look at all of a value
_WORDS = 2_000  # characters of a sentence with its hint


def size(value):
    """Parts, characters and bytes of tensors of a plain value, all together."""
    if isinstance(value, torch.Tensor):
        return torch.tensor([1, 0, value.nbytes])
    if isinstance(value, str | Other):
        return torch.tensor([1, len(str(value)), 0])
    if isinstance(value, dict):
        value = [*value, *value.values()]
    parts = map(size, value if isinstance(value, list | tuple) else ())
    return sum(parts, start=torch.tensor([1, 0, 0]))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_plain_value_has_bounds(name):
    made = eval(
        HOSTILE[name], {"functools": functools, "itertools": itertools, "torch": torch}
    )
    parts, characters, count = size(plain(made)).tolist()
    assert parts <= 3 * PARTS and characters <= 20 * CHARACTERS and count <= BYTES


TOO_MUCH = (
    ([0] * 12_345, "a list of 12,345"),
    ("x" * 123_456, "a text of 123,456 characters"),
    (b"x" * 123_456, "123,456 bytes"),
    (numpy.zeros(123_456), "f64[123456], too long to look at"),
    (torch.zeros(1).expand(10**9), "f32[1000000000], too large to look at"),
    (torch.zeros(2, device="meta"), "f32[2] on meta, which holds no numbers"),
    (1 << 9_999, "a whole number of 10,000 bits"),
    ((i for i in ()), "a generator"),
)


@pytest.mark.parametrize(
    "value, told", [pytest.param(*one, id=one[1]) for one in TOO_MUCH]
)
def test_what_is_too_much_says_what_it_is(value, told):
    assert plain(value) == Other(told)


def test_what_several_parts_hold_is_counted_together():
    tensors = plain([torch.zeros(BYTES // 8)] * 3)
    assert [torch.is_tensor(one) for one in tensors] == [True, True, False]
    texts = plain(["x" * CHARACTERS, "y"])
    assert texts == ["x" * CHARACTERS, Other("a text of 1 character")]


def test_numbers_of_numpy_are_plain_ones():
    assert plain([numpy.float32(0.5), numpy.int8(3), numpy.bool_(True)]) == [
        0.5,
        3,
        True,
    ]


SPOILED = ("1.3", "2.1", "2.2", "2.4", "3.1", "5.2", "6.3")
_MOVED = """
def {}(*args):
    for model in args:
        if isinstance(model, torch.nn.Module):
            model.to("meta")
"""


@pytest.mark.parametrize("exercise", SPOILED)
def test_a_model_without_numbers_is_no_fault_of_the_check(exercise):
    found = outcome(
        exercise, _IMPORTS + _MOVED.format(_function(exercise)), timeout=_LONG
    )
    assert found.status == "not yet"
    assert found.hint.startswith("Leave the model that is given on its device"), found


@pytest.mark.parametrize("exercise", exercises())
def test_a_hostile_value_gets_a_sentence_and_hurts_nobody(exercise):
    arrived, run = [], attempt.Attempt.run

    def noted(self, *args):
        results = run(self, *args)
        arrived.append(len(pickle.dumps(list(results))))
        return results

    for name, value in HOSTILE.items():
        source = f"{_IMPORTS}\ndef {_function(exercise)}(*args):\n    return {value}\n"
        with mock.patch.object(attempt.Attempt, "run", noted):
            found = outcome(exercise, source, timeout=_LONG)
        assert found.status == "not yet", (name, found)
        assert len(found.message + found.hint) < _WORDS, (name, found)
        late = getattr(found.wrong, "error", None)
        assert late is None or late.kind not in attempt.STUCK, (name, found)
    assert max(arrived, default=0) < _MOST
    right = next(one for one in answers.right() if one.exercise == exercise)
    assert outcome(exercise, right.source, timeout=_LONG).status == "right"
