"""The scene of lost updates: it shows what a log says, and what follows from it."""

import pytest

from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.scenes.lost_updates import Addition, in_order
from course_lib.tracing.events import Event, Trace


def event(process, old, start, stop):
    return Event(f"process {process}", "compute", f"{old} → {old + 1}", start, stop)


RACE = [
    event(0, 0, 0.0, 0.10),
    event(1, 0, 0.01, 0.11),
    event(1, 1, 0.12, 0.22),
    event(0, 1, 0.13, 0.23),
]
LOCKED = [event(i % 2, i, 0.1 * i, 0.1 * i + 0.09) for i in range(4)]


def titles(events):
    return [moment.title for moment in scenes.lost_updates(events).moments]


def test_each_read_and_each_write_is_a_moment_in_the_order_of_time():
    assert titles(RACE) == [
        "The counter says 0; 2 processes will make 4 additions.",
        "Process 0 reads 0.",
        "Process 1 reads 0, too.",
        "Process 0 writes 1.",
        "Process 1 writes 1 over 1: the update of process 0 is lost.",
        "Process 1 reads 1.",
        "Process 0 reads 1, too.",
        "Process 1 writes 2.",
        "Process 0 writes 2 over 2: the update of process 1 is lost.",
        "The counter says 2 after 4 additions: 2 updates are lost.",
    ]


def test_with_a_lock_nothing_is_lost():
    said = titles(LOCKED)
    assert said[-1] == "The counter says 4 after 4 additions: nothing is lost."
    assert not any("over" in title or "too" in title for title in said)


def test_what_is_overwritten_is_marked_from_then_on_by_a_word_and_an_outline():
    moments = scenes.lost_updates(RACE).moments
    marked = [
        [(i.id, i.text) for i in moment.items if "again" in i.role]
        for moment in moments
    ]
    first, second = (
        ("addition 0 0.0", "0 → 1, lost"),
        ("addition 1 0.12", "1 → 2, lost"),
    )
    assert marked == [[]] * 4 + [[first]] * 4 + [[first, second]] * 2
    items = moments[-1].items
    assert [i.text for i in items if i.id == "addition 1 0.01"] == ["0 → 1"]
    assert "4 additions, 2 lost" in [item.text for item in items]


def test_a_process_holds_the_number_that_it_read_until_it_writes():
    cards = [
        [item for item in moment.items if item.id == "card 0"][0]
        for moment in scenes.lost_updates(RACE).moments
    ]
    away = [card.y > cards[0].y for card in cards]
    assert away == [False, True, True, False, False, False, True, True, False, False]
    assert [card.text for card in cards] == [*"0001111122"]


def test_the_sum_of_what_is_lost_is_what_the_counter_lacks():
    # a slow process brings the counter back from 3 to 1, another one up again
    slow, late = event(0, 0, 0.0, 0.5), event(2, 3, 0.45, 0.6)
    quick = [event(1, i, 0.1 + 0.1 * i, 0.19 + 0.1 * i) for i in range(3)]
    said = titles([slow, late, *quick])
    assert said[-3:-1] == [
        "Process 0 writes 1 over 3: 3 updates of process 1 are now only in what others "
        "have read.",
        "Process 2 writes 4 over 1: the update of process 0 is lost.",
    ]
    assert said[-1] == "The counter says 4 after 5 additions: an update is lost."


def test_what_is_lost_never_comes_back():
    old, quick = event(2, 0, 0.1, 4), [event(0, 0, 0, 1), event(1, 1, 1.2, 2)]
    moments = scenes.lost_updates([*quick, old, event(0, 2, 3, 5)]).moments
    scores = [[i.text for i in m.items if i.id == "score"][0] for m in moments]
    lost = [int(score.split()[-2]) for score in scores]
    assert lost == sorted(lost) and scores[-1] == "4 additions, 1 lost"
    assert moments[-1].title.startswith("The counter says 3")


def test_a_slow_write_over_several_says_whose_updates_are_lost():
    said = titles([event(0, 0, 0, 9), event(1, 0, 1, 2), event(2, 1, 3, 4)])
    lost = "2 updates, of process 1 and process 2, are lost."
    assert said[-2] == f"Process 0 writes 1 over 2: {lost}"


def test_a_text_that_does_not_fit_is_left_out():
    many = [event(i, 123456789 + i, i, i + 1) for i in range(6)]
    for item in scenes.lost_updates(many).moments[-1].items:
        if item.w and item.text:
            assert 6.6 * len(item.text) < item.w


def test_a_write_that_is_noted_late_comes_before_who_read_its_number():
    first, second = Addition(0, 0, 1, 0.0, 0.1003), Addition(1, 1, 2, 0.1001, 0.2)
    order = [(access.kind, access.addition) for access in in_order([first, second])]
    assert order == [
        ("read", first),
        ("write", first),
        ("read", second),
        ("write", second),
    ]
    assert not any(access.lost for access in in_order([first, second]))


def test_a_log_that_contradicts_itself_is_shown_as_it_is():
    assert titles([event(0, 0, 0, 1), event(1, 7, 2, 3)])[-1] == (
        "The counter says 8 after 2 additions: nothing is lost."
    )


def test_a_trace_will_do_and_one_addition_of_no_length():
    scene = scenes.lost_updates(Trace((event(0, 0, 1.0, 1.0),), "measured"))
    assert len(scene.moments) == 4
    assert scene.moments[-1].title.startswith("The counter says 1 after 1 addition: no")


def test_names_with_markup_are_text():
    scene = scenes.lost_updates([Event("</script><b>", "compute", "0 → 1", 0, 1)])
    assert "</script><b>" not in scene._repr_html_()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "1 to 60 additions|1 to 6 processes"),
        ([event(i, 0, 0, 1) for i in range(7)], "1 to 6 processes: found 7"),
        ([event(0, i, i, i + 1) for i in range(61)], "1 to 60 additions: found 61"),
        ([Event(0, "compute", "forward", 0, 1)], "found 'forward'"),
        ([Event(0, "compute", "nan → 1", 0, 1)], "found 'nan → 1'"),
        ([event(0, 0, 0, 1), event(0, 1, 0, 2)], "two additions at one time, 0 s"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(events, why):
    with pytest.raises(UsageError, match=why):
        scenes.lost_updates(events)


def test_fifty_additions_of_six_processes_stay_below_60_kb():
    events = [event(i % 6, i // 6, i // 6 + i / 100, i // 6 + 0.9) for i in range(50)]
    assert len(scenes.lost_updates(events)._repr_html_()) < 60_000
