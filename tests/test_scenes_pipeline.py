"""The scene of pipelines: its clock is that of lesson 01b, its orders are torch's."""

import json
from pathlib import Path

import pytest

from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.scenes.interleaved import actions
from course_lib.scenes.timetable import played
from course_lib.text import many

LESSON = Path(__file__).parents[1] / "notebooks/01b_pipelines.ipynb"


@pytest.fixture(scope="module")
def lesson():
    """The lesson's own functions: `gpipe`, `one_f_one_b`, `clock`."""
    import course_lib

    names = {"cl": course_lib}
    for cell in json.loads(LESSON.read_text(encoding="utf-8"))["cells"]:
        if cell["id"] in ("gpipe", "clock", "one-f-one-b"):
            exec("".join(cell["source"]).partition("\n\n")[0], names)
    return names


@pytest.fixture
def schedules(lesson):
    plain = {"GPipe": lesson["gpipe"], "1F1B": lesson["one_f_one_b"]}
    return plain | {"interleaved": scenes.interleaved}


def moments(schedules, name, p, m):
    return scenes.pipeline({name: schedules[name]}, p=[p], m=[m]).moments


def bars(moment):
    """Texts of the bars of what is alive, from device 0 on."""
    return [item.text for item in moment.items if item.id.startswith("now ")]


@pytest.mark.parametrize("name", ["GPipe", "1F1B"])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (2, 4), (4, 2), (4, 8)])
def test_the_clock_is_that_of_the_lesson(lesson, schedules, name, p, m):
    instructions = schedules[name](p, m)
    plan, trace = played(instructions, p), lesson["clock"](instructions)
    expected = {(e.rank, e.name, e.start, e.stop) for e in trace}
    assert expected == {
        (f"stage {s.stage}", f"{s.kind} {s.number}", s.start, s.stop)
        for s in plan.stretches
    }
    assert plan.bubble == pytest.approx(trace.bubble)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (4, 8), (3, 7)])
def test_the_orders_of_the_lesson_are_those_of_torch(schedules, p, m):
    for name in ("GPipe", "1F1B"):
        instructions = schedules[name](p, m)
        for stage, order in enumerate(actions(name, p, m)):
            own = [i for i in instructions if i[0] == stage]
            # torch 2.13 lists the last stage's forwards of 1F1B from 1 on
            if (name, stage) == ("1F1B", p - 1):
                own, order = ([i[:2] for i in rows] for rows in (own, order))
            assert own == order


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (4, 8)])
def test_interleaving_two_stages_halves_the_bubble(schedules, p, m):
    plain, double = (
        played(schedules[name](p, m), p) for name in ("1F1B", "interleaved")
    )
    bubble = plain.span - 3 * m
    assert double.span == 3 * m + bubble / 2
    assert double.peak >= plain.peak  # the price
    assert {s.stage % p == s.device for s in double.stretches} == {True}


def test_a_moment_is_a_unit_of_time_and_says_who_waits(schedules):
    titles = [moment.title for moment in moments(schedules, "GPipe", 4, 4)]
    assert titles[0] == "GPipe: 4 micro-batches, 4 devices." and len(titles) == 23
    assert titles[1] == "Time 1: devices 1, 2 and 3 wait."
    assert titles[3:5] == ["Time 3: device 3 waits.", "Time 4: all devices compute."]
    assert titles[-1].startswith("GPipe: 21 units, 43 % of them bubble; at most 4 ")


def test_instructions_appear_when_they_begin_and_keep_their_places(schedules):
    before = set()
    for time, moment in enumerate(moments(schedules, "1F1B", 2, 4)[:-1]):
        begun = {item for item in moment.items if "event" in item.role}
        assert before <= begun
        assert all(time - 1 <= item.x < time for item in begun - before)
        before = begun
    assert len(before) == 16


@pytest.mark.parametrize(("name", "most"), [("GPipe", "8888"), ("1F1B", "4321")])
def test_what_is_alive_is_m_with_gpipe_and_p_less_s_with_1f1b(schedules, name, most):
    shown = moments(schedules, name, 4, 8)
    assert any(bars(moment) == [*most] for moment in shown[1:])
    labels = [i.text for i in shown[-1].items if i.id.startswith("count")]
    assert labels == [f"at most {number}" for number in most]
    assert bars(shown[-1]) == [""] * 4


def test_a_stage_of_two_on_a_device_counts_half(schedules):
    last = moments(schedules, "interleaved", 2, 4)[-1]
    assert "at most 2½" in [item.text for item in last.items]
    assert "stages 0, 2" in [item.text for item in last.items]


def test_what_torch_cannot_interleave_is_said_in_one_moment(schedules):
    (moment,) = moments(schedules, "interleaved", 3, 16)
    assert moment.title.startswith("torch cannot interleave 16 micro-batches on 3")


def test_a_schedule_that_gets_stuck_is_played_up_to_there():
    forward = [(1, "forward", 0), (1, "backward", 0), (0, "forward", 1)]
    scene = scenes.pipeline({"mine": lambda p, m: forward}, p=[2], m=[2])
    assert scene.moments[-1].title == (
        "Device 1 waits for ever: forward 0 of stage 1 never gets its input."
    )
    assert sum("event" in item.role for item in scene.moments[-1].items) == 1


def test_one_value_will_do_for_a_slider(schedules):
    scene = scenes.pipeline({"GPipe": schedules["GPipe"]}, p=1, m=1)
    assert scene.moments[0].title == "GPipe: 1 micro-batch, 1 device."
    assert scene.moments[-1].title.endswith("at most 1 micro-batch alive.")


def test_a_schedule_that_is_not_complete_names_what_is_missing_first(schedules):
    def without_last(p, m):
        return [i for i in schedules["GPipe"](p, m) if i != (0, "backward", 1)]

    last = scenes.pipeline({"mine": without_last}, p=2, m=2).moments[-1]
    assert last.title == "mine is not complete: backward 1 of stage 0 is missing."


def test_a_schedule_that_returns_nothing_is_a_sentence():
    with pytest.raises(UsageError, match="mine returns None for p=2, m=3: expected a"):
        scenes.pipeline({"mine": lambda p, m: None}, p=2, m=3)


@pytest.mark.parametrize("bad", [None, [], len, ["gpipe"], {"GPipe": 3}])
def test_what_is_no_dict_of_functions_is_refused(bad):
    with pytest.raises(UsageError, match="functions by name|needs at least one"):
        scenes.pipeline(bad)


@pytest.mark.parametrize("bad", [{"devices": 4}, 4, {"p": 4, "q": 1}])
def test_first_values_have_the_names_of_the_sliders(schedules, bad):
    with pytest.raises(UsageError, match="expected a dict of 'schedule', 'p' and 'm'"):
        scenes.pipeline(schedules, at=bad)


@pytest.mark.parametrize(("p", "m"), [(0, 4), (4, 0)])
def test_what_cannot_be_interleaved_is_refused(p, m):
    with pytest.raises(UsageError, match="cannot be 0: expected a whole number"):
        scenes.interleaved(p, m)


def test_a_schedule_of_nothing_is_a_moment():
    scene = scenes.pipeline({"<b>": lambda p, m: []}, p=[2], m=[2])
    assert [moment.title for moment in scene.moments] == ["<b> has no instruction."]
    assert "<b> has" not in scene._repr_html_()


@pytest.mark.parametrize(
    "bad", [{"p": []}, {"m": [0]}, {"p": [2.5]}, {"m": [float("nan")]}, {"m": 1000}]
)
def test_a_pipeline_of_nothing_is_refused(schedules, bad):
    with pytest.raises(UsageError, match="cannot be|needs at least one"):
        scenes.pipeline(schedules, **bad)


@pytest.mark.parametrize("bad", [(0, "sideways", 0), 3, (-1, "forward", 0), ("a",) * 3])
def test_what_is_no_instruction_is_refused(bad):
    with pytest.raises(UsageError, match="an instruction is"):
        scenes.pipeline({"mine": lambda p, m: [bad]})


def test_an_instruction_stands_in_a_schedule_once():
    twice = [(0, "forward", 0), (0, "forward", 0)]
    with pytest.raises(UsageError, match="twice"):
        scenes.pipeline({"mine": lambda p, m: twice})


def test_all_positions_of_the_lesson_stay_below_60_kb(schedules):
    scene = scenes.pipeline(schedules, p=[2, 4], m=[4, 8], at={"p": 4, "m": 4})
    assert len(scene.runs) == 12 and len(scene._repr_html_()) < 60_000
    assert [*scene.at.values()] == ["GPipe", 4, 4]


def test_only_what_ends_like_batch_has_its_plural():
    assert many(2, "micro-batch") == "2 micro-batches"
    assert [many(1, "micro-batch"), many(2, "epoch")] == ["1 micro-batch", "2 epochs"]
