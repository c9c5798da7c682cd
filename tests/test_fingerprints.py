"""Known mistakes are found by their fingerprints, and no others are."""

import json

import pytest
import torch

from course_lib.exercises import fingerprints, folders
from course_lib.exercises.exercise import Wrong
from tests import answers

KEPT = [exercise for exercise in folders.by_exercise() if fingerprints.known(exercise)]
MISTAKES = [answer for answer in answers.wrong() if answer.makes]


def wrong(clue, *, case=0, also=None):
    error = Wrong("so it is", clue=clue, also=also)
    error.case = case
    return fingerprints.of(error)


@pytest.fixture
def known(monkeypatch):
    """Mistakes of an exercise that is only here."""

    def keep(*prints):
        rows = [{"hint": f"hint {i}", **one} for i, one in enumerate(prints)]
        monkeypatch.setattr(fingerprints, "known", lambda exercise: rows)

    return keep


def told(found):
    nearest = fingerprints.nearest("0.0", found)
    return nearest and nearest["hint"]


def test_the_same_tensors_with_other_last_digits_are_one_mistake(known):
    grads = {"weight": torch.randn(30, 20), "bias": torch.randn(20)}
    known(
        wrong({"grads": grads}), wrong({"grads": {n: 2 * g for n, g in grads.items()}})
    )
    rounded = {name: grad.bfloat16().float() for name, grad in grads.items()}
    assert told(wrong({"grads": rounded})) == "hint 0"
    assert told(wrong({"grads": {n: 1.98 * g for n, g in grads.items()}})) == "hint 1"
    assert told(wrong({"grads": {n: 1.5 * g for n, g in grads.items()}})) is None
    assert told(wrong({"grads": {n: g.flip(0) for n, g in grads.items()}})) is None


def test_where_nothing_differs_but_last_digits_they_do_not_decide(known):
    far = torch.randn(30)

    def clue(*sizes):
        return wrong(
            [{"w": size * (far if size == 1 else torch.randn(30))} for size in sizes]
        )

    known(clue(1e-8, 1))
    assert told(clue(1e-8, 1)) == "hint 0"
    assert told(clue(1e-8, 1e-8)) is None
    assert told(clue(1, 1)) is None


def test_all_fields_of_a_clue_must_agree(known):
    known(wrong({"steps": 4, "bytes": 100}))
    assert told(wrong({"steps": 4, "bytes": 101})) == "hint 0"
    assert told(wrong({"steps": 3, "bytes": 100})) is None
    assert told(wrong({"steps": 4})) is None


def test_a_clue_is_of_one_case(known):
    known(wrong({"steps": 4}, case=1))
    assert told(wrong({"steps": 4}, case=1)) == "hint 0"
    assert told(wrong({"steps": 4})) is None


def test_what_else_was_seen_decides_between_equal_clues(known):
    known(wrong(1, also={"passes": 4}), wrong(1, also={"passes": 36}))
    assert told(wrong(1, also={"passes": 5})) == "hint 0"
    assert told(wrong(1, also={"passes": 30})) == "hint 1"
    assert told(wrong(1, also={"passes": 400})) is None


@pytest.mark.parametrize(
    "clue",
    [
        float("nan"),
        float("inf"),
        10**400,
        torch.full((3,), float("nan")),
        torch.empty(0),
        {},
        [],
        None,
        "text",
        {"a": [1, {"b": (True, None)}]},
        object,
    ],
)
def test_whatever_is_a_clue_is_kept_and_found_again(known, clue):
    found = wrong({"clue": clue})
    known(json.loads(json.dumps(found)))
    assert told(wrong({"clue": clue})) == "hint 0"
    assert told(wrong({"clue": {"other": 3.5}})) is None


def test_failures_are_compared_by_the_words_of_their_message(known):
    message = "RuntimeError: element 0 of tensors does not require grad"
    one = {"failed": {"error": "RuntimeError", "words": fingerprints.words(message)}}
    known(one)
    other = message.replace("element 0", "element 12")
    alike = {"error": "RuntimeError", "words": fingerprints.words(other)}
    assert told({"failed": alike}) == "hint 0"
    assert told({"failed": alike | {"error": "TypeError"}}) is None
    assert told({"failed": alike | {"words": ["something", "else"]}}) is None


@pytest.mark.parametrize("exercise", KEPT)
def test_what_is_kept_are_the_mistakes_of_today(exercise):
    rows = {one["name"]: one["hint"] for one in fingerprints.known(exercise)}
    mine = [answer for answer in MISTAKES if answer.exercise == exercise]
    assert rows == {answer.name: answer.hint for answer in mine}, (
        f"keep the mistakes of {exercise} anew: make mistakes ARGS={exercise}"
    )


def test_no_mistakes_are_forgotten():
    assert {answer.exercise for answer in MISTAKES} == set(KEPT)
