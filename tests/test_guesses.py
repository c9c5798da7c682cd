"""A guess is answered by the learner's own run, and never by a stored key."""

import json
import math

import pytest
import torch

import conftest  # of the whole course: nbval's items are looked at there
import course_lib as cl
from course_lib.errors import UsageError
from course_lib.exercises import progress
from course_lib.lessons import guess as guessing


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A progress file of this test's own."""
    path = tmp_path / "progress.jsonl"
    monkeypatch.setenv("COURSE_LIB_PROGRESS", str(path))
    monkeypatch.setattr(progress, "_unkept", [])
    return path


def lines():
    return cl.guess("t-lines", "How many lines will you see?", 1, 2, 4)


def test_without_a_guess_only_what_was_seen_is_said():
    assert repr(lines().was(2)) == "2."


@pytest.mark.parametrize(
    ("choice", "said"), [("2", "2, as you guessed."), ("4", "2. You guessed 4.")]
)
def test_a_guess_is_held_against_the_run(choice, said):
    asked = lines()
    assert asked.choose(choice) == ""
    assert repr(asked.was(2)) == said
    assert repr(lines().was(2)) == said, "a second run remembers it"


def test_a_row_that_goes_on_needs_no_full_stop():
    asked = cl.guess("t-row", "Which?", "1, 4 …", "1, 2 …")
    assert repr(asked.was("1, 4 …")) == "1, 4 …"
    asked.choose("1, 2 …")
    assert repr(asked.was("1, 4 …")) == "1, 4 … You guessed 1, 2 …"


def test_names_of_code_look_like_code():
    page = guessing.Outcome("2.", " The gradient of `x<1` and `y`.")._repr_html_()
    assert "gradient of <code>x&lt;1</code> and <code>y</code>." in page


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """Two sections of sentences: a count, and a measured time."""
    monkeypatch.setattr(guessing, "SENTENCES", tmp_path)
    guessing.read_sentences.cache_clear()
    text = """[t-lines]
decided by = each runs
4 = Four is
  too many.
[t-speed]
decided by = eight times the images
possible = 0.5 to 10
disturbed = A busy core
  interrupts.
1 = Calls count.
3 = Nearly all is won.
"""
    (tmp_path / "t.ini").write_text(text)
    yield
    guessing.read_sentences.cache_clear()


def test_a_wrong_guess_gets_the_sentence_of_that_mistake(sentences):
    asked = lines()
    asked.choose("4")
    assert repr(asked.was(2)) == "2. You guessed 4: Four is too many."
    asked.choose("1")
    assert repr(asked.was(2)) == "2. You guessed 1."


def test_a_sentence_is_not_said_of_a_run_that_it_was_not_written_for(sentences):
    asked = cl.guess("t-speed", "How fast?", 1, 3, 8)
    asked.choose("1")
    assert repr(asked.was(8)) == "8. You guessed 1: Calls count."
    assert repr(asked.was(3)) == "3. You guessed 1."
    assert repr(asked.was("all")).endswith("not among the options. You guessed 1.")


@pytest.mark.parametrize(
    ("value", "near"), [(8, True), (7.6, True), (8.5, True), (7, False), (9, False)]
)
def test_a_sentence_is_not_said_of_a_count_that_is_only_nearest(value, near, sentences):
    asked = cl.guess("t-lines", "How many?", 1, 4, 8)
    asked.choose("4")
    said = repr(asked.was(value))
    assert said.endswith("You guessed 4: Four is too many.") is near
    assert said.endswith("You guessed 4.") is not near


def measured():
    """The names of timed guesses among numbers."""
    for path in sorted(guessing.SENTENCES.glob("*.ini")):
        texts = guessing.read_sentences(path.stem)
        for name in texts.sections():
            numbers = all(why[0].isdigit() for why in guessing.sentences(name))
            if "disturbed" in texts[name] and numbers:
                yield name


# counted in a run that other programs change: it can be any number
COUNTED = {"05-stale"}


@pytest.mark.parametrize("name", [*measured()])
def test_a_measured_number_has_bounds(name):
    """What no machine can give is no proof of the option that is nearest to it."""
    least, most = guessing.possible(name)
    assert least < most
    assert math.isfinite(least) != (name in COUNTED)
    assert math.isfinite(most) != (name in COUNTED)


def speed():
    return cl.guess("t-speed", "How fast?", 1, 3, 8, timed=True)


QUIET = "On two quiet cores it is 8. A busy core interrupts."


@pytest.mark.parametrize(
    ("value", "choice", "said", "kind"),
    [
        (8.4, None, "8.4, nearest to 8.", "timed"),
        (8.4, "8", "8.4, nearest to 8, as you guessed.", "timed"),
        (8.4, "3", "8.4, nearest to 8. You guessed 3: Nearly all is won.", "timed"),
        (2.9, None, f"2.9, nearest to 3. That is what came out here. {QUIET}", "other"),
        (2.9, "3", f"came out here. {QUIET} You guessed 3.", "other"),
        (2.9, "8", f"came out here. {QUIET} You guessed 8.", "other"),
        (26.3, "8", f"no quiet machine gives. {guessing.AGAIN} {QUIET}", "other"),
    ],
)
def test_a_measured_time_may_be_another_one_on_a_quiet_machine(
    value, choice, said, kind, sentences
):
    asked = speed()
    if choice:
        asked.choose(choice)
    outcome = asked.was(value)
    assert said in repr(outcome)
    assert outcome.kind.endswith(kind)


@pytest.mark.parametrize("value", [8, 2.9, 26.3])
def test_a_measured_time_decides_no_test_and_a_count_does(value, sentences):
    def outputs(outcome):
        return [{"data": {"text/html": outcome._repr_html_()}}]

    counted = cl.guess("t-speed", "How many?", 1, 3, 8)
    stored = speed().was(8), counted.was(8)
    run = speed().was(value), counted.was(value)
    found = [
        bool(conftest.other_answer(*map(outputs, pair))) for pair in zip(stored, run)
    ]
    assert found == [False, value != 8]


def test_a_measured_time_needs_the_answer_of_a_quiet_machine(sentences):
    with pytest.raises(UsageError, match="t-lines is timed, so guesses/ needs"):
        cl.guess("t-lines", "How many?", 1, 2, 4, timed=True)


@pytest.mark.parametrize(
    ("options", "value", "said"),
    [
        ((1, 2, 4), 1.93, "1.93, nearest to 2."),
        ((0.5, 1, 2), torch.tensor(1.4), "1.4, nearest to 1."),
        ((1, 10, 100), 4, "4, nearest to 10."),
        ((0, 1), -3, "-3, nearest to 0."),
        (("yes", "no"), True, "yes."),
        ((True, False), False, "no."),
        (("yes", "no"), torch.tensor(False), "no."),
        (("rank 0", "rank 1"), "rank 1", "rank 1."),
        (("rank 0", "rank 1"), "both", "both, which was not among the options."),
        ((1, 2), float("nan"), "nan, which was not among the options."),
    ],
)
def test_what_a_run_gives_is_one_of_the_options(options, value, said):
    assert repr(cl.guess("t-any", "What?", *options).was(value)) == said


def test_units_stand_behind_numbers_alone():
    asked = cl.guess("t-size", "How much?", 1_500, 12.5, "all of it", unit="MB")
    assert list(asked.options) == ["1,500 MB", "12.5 MB", "all of it"]
    assert repr(asked.was(13.04)) == "13 MB, which was not among the options."


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1.0, "1"), (0.000_21, "0.00021"), (1e-7, "1e-07"), (1999.6, "2,000")]
    + [(12.34, "12.3"), (17_142_856, "17,142,856"), (float("inf"), "inf")],
)
def test_numbers_are_short(number, text):
    assert guessing._number(number) == text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("t-x", "How many?"), "no option is no choice"),
        (("t-x", "How many?", 1), "one option is no choice"),
        (("t-x", "How many?", 1, 2, 2), "two options are '2'"),
        (("t-x", "How many?", 1, 1.0), "two options are '1'"),
        (("t-x", "Same?", True, "yes"), "two options are 'yes'"),
        (("t-x", " ", 1, 2), "a guess needs a question"),
        (("", "How many?", 1, 2), "a guess needs a name"),
        ((7, "How many?", 1, 2), "a guess needs a name"),
    ],
)
def test_a_question_that_is_none_is_refused(arguments, why):
    with pytest.raises(UsageError, match=why):
        cl.guess(*arguments)


def test_a_guess_is_a_row_of_the_progress_file(kept):
    lines().choose("4")
    row = json.loads(kept.read_text())
    assert row.pop("at") > 0
    assert row == {"v": 1, "guess": "t-lines", "choice": 4}


def test_a_choice_that_is_no_option_any_more_is_forgotten():
    lines().choose("4")
    assert cl.guess("t-lines", "How many?", 1, 2).choice is None


@pytest.mark.parametrize(
    "damage",
    [b'{"v": 1, "guess": "t-lines", "cho', b'{"guess": ["t-lines"], "choice": 4}']
    + [b'{"v": 1, "guess": "t-lines"}', b"\xff\xfe", b'{"v": 1, "guess": 4}'],
)
def test_a_broken_progress_file_costs_no_guess_after_it(kept, damage):
    kept.write_bytes(damage)
    assert lines().choice is None
    lines().choose("2")
    assert lines().choice == "2"
    assert kept.read_bytes().startswith(damage)


def test_rows_of_a_newer_version_are_left_as_they_are(kept):
    newer = '{"v": 2, "guess": "t-lines", "choice": {"of": 4}}\n'
    kept.write_text(newer)
    assert (lines().choice, progress.newer()) == (None, 1)
    lines().choose("1")
    assert kept.read_text().startswith(newer)


def test_where_nothing_can_be_kept_a_guess_lasts_as_long_as_the_kernel(
    tmp_path, monkeypatch
):
    place = tmp_path / "nowhere" / "progress.jsonl"
    monkeypatch.setenv("COURSE_LIB_PROGRESS", str(place))
    asked = lines()
    assert f"No such file or directory ({place})" in asked.choose("4")
    assert repr(lines().was(2)) == "2. You guessed 4."
