"""Judges decide on whatever an answer gives, and on other cases as on the learner's."""

import random
from functools import cache

import pytest
import torch

from course_lib.exercises import baseline
from course_lib.exercises.checking import exercises
from course_lib.exercises.exercise import Wrong
from course_lib.exercises.values import Other, plain
from tests import answers, judging
from tests.checking import first_seen, mistake
from tests.mistakes import IN_RANKS

SEEDS = (1, 2, 3)
VALUES = 10_000 if answers.EVERY else 1_000  # of each exercise, over its cases


@pytest.fixture(autouse=True)
def one_thread():
    """Answers compute as in a rank."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CHOSEN = answers.right() + [
    answer
    for answer in answers.wrong()
    if answers.EVERY or answers.drawn(answer) // 3 % 6 == 0
]


@pytest.mark.parametrize("answer", CHOSEN, ids=lambda answer: answer.id)
def test_other_cases_decide_as_the_learners_do(answer):
    called = answer.exercise not in IN_RANKS and not answer.slow
    chosen = [SEEDS[answers.drawn(answer) % len(SEEDS)]]
    seeds = SEEDS if answers.EVERY else chosen
    for seed in seeds if not answer.slow else SEEDS[:1]:
        wrong = mistake(
            answer.exercise,
            answer.source,
            seed=seed,
            timeout=answer.slow,
            called=called,
        )
        assert (wrong is None) == (not answer.hint), (answer.place, seed, wrong)


@cache
def seen_by(exercise):
    """Pairs of a case and what was seen of a right answer, for the learner's cases."""
    answer = next(one for one in answers.right() if one.exercise == exercise)
    return first_seen(exercise, answer.source, called=exercise not in IN_RANKS)


@pytest.mark.parametrize("exercise", exercises())
def test_a_judge_ends_in_a_proof_or_in_wrong(exercise):
    task, pairs, ends = exercises()[exercise], seen_by(exercise), {True: 0, False: 0}
    numbers, places = random.Random(exercise), [judging.places(s) for _, s in pairs]
    with baseline.settled():
        for number in range(VALUES):
            chosen = number % len(pairs)
            case, seen = pairs[chosen]
            seen = judging.changed(seen, places[chosen], numbers)
            try:
                proof = task.judge(case, seen)
                assert isinstance(proof, str)
                ends[True] += 1
            except Wrong as wrong:
                assert str(wrong)
                ends[False] += 1
    assert ends[False] > VALUES / 10  # not all in places that a judge leaves out


@pytest.mark.parametrize("number", range(200))
def test_a_plain_value_has_only_built_in_types(number):
    def parts(value):
        yield value
        if isinstance(value, dict | list | tuple):
            for part in value.values() if isinstance(value, dict) else value:
                yield from parts(part)

    allowed = {bool, int, float, str, list, tuple, dict, torch.Tensor, Other}
    kinds = set(map(type, parts(judging.value(random.Random(number)))))
    assert kinds <= allowed | {type(None)}


def test_what_lies_about_equality_is_taken_by_its_own_number():
    assert plain(judging.LyingFloat(2)) != 3
    assert plain(judging.Liar()) == Other("a Liar")
    assert plain(judging.LyingList([7])) == [7]
