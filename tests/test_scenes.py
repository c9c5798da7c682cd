"""Scenes as data: moments and items, what a page of them holds, what is refused."""

import re
import xml.etree.ElementTree as tree
from urllib.parse import unquote

import pytest

from course_lib import colors, scenes
from course_lib.errors import UsageError
from course_lib.scenes import scene, svg
from course_lib.scenes.items import Axis, Item, Moment, label
from course_lib.scenes.scene import Scene, varied
from tests.film import payload_of

NAMESPACE = "{http://www.w3.org/2000/svg}"
MARKUP = "</script><b>&\"'"


def box(name="a", x=0, **fields):
    return Item(name, x, 0, 20, 10, "rank-1", **fields)


def short(*moments, **settings):
    rows = [Moment(f"moment {i}.", tuple(items)) for i, items in enumerate(moments)]
    return Scene(rows, height=40, source="computed", **settings)


def still(page):
    """The picture of a page as a tree of SVG."""
    return tree.fromstring(
        unquote(re.search('src="data:image/svg.xml,([^"]*)"', page)[1])
    )


def played(data, run=0):
    """What the script shows at each moment, from the changes that it reads."""
    rows, now = [], {}
    for title, changes in data["runs"][run]:
        for change in changes:
            if change < 0:
                now.pop(data["states"][-change - 1][0])
            else:
                now[data["states"][change][0]] = change
        rows.append((data["words"][title], dict(now)))
    return rows


def test_the_page_has_a_picture_for_screen_readers_and_a_script():
    page = short([box()], [box(x=30)], alt="one box")._repr_html_()
    assert '<img alt="moment 1. one box. computed."' in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert not re.search(r'(src|href)="http', page)


def test_a_moment_is_kept_as_what_changes():
    data = scene.payload(short([box(), box("b")], [box(x=30)], [box(x=30), box("c")]))
    assert [changes for _, changes in data["runs"][0]] == [[0, 1], [2, -2], [3]]


def test_what_the_script_reads_is_what_was_given():
    moments = [[box(x=i), box("b", text=str(i))] for i in range(4)] + [[box(x=9)]]
    data = scene.payload(short(*moments))
    for number, (title, now) in enumerate(played(data)):
        states = [data["states"][state] for state in now.values()]
        shown = {(row[1], data["words"][row[6]]) for row in states}
        assert title == f"moment {number}."
        assert shown == {(item.x, item.text) for item in moments[number]}


def test_all_positions_of_all_sliders_are_there():
    def make(ranks, drop):
        return [Moment(f"{ranks} {drop}", (box(x=ranks),))]

    options = {"ranks": [2, 3], "drop": [False, True]}
    shown = varied(make, options, at={"ranks": 3, "drop": False}, height=9, source="")
    data = scene.payload(shown)
    titles = [rows[-1][0] for rows in (played(data, run) for run in range(4))]
    assert titles == ["2 False", "2 True", "3 False", "3 True"]
    assert [p["at"] for p in data["parameters"]] == [1, 0]
    assert data["parameters"][1]["values"] == ["no", "yes"]
    assert shown.moments[0].title == "3 False"


def test_names_with_markup_are_text():
    page = short([box(text=MARKUP, tip=MARKUP)], source_of := [])._repr_html_()
    assert page.count("</script>") == 1 and not source_of
    assert MARKUP in payload_of(page)["words"]
    texts = [t.text for t in still(short([box(text=MARKUP)])._repr_html_()).iter()]
    assert MARKUP in texts


def test_the_picture_holds_the_last_moment():
    picture = still(short([box(text="gone")], [box("b", text="here")])._repr_html_())
    texts = [text.text for text in picture.iter(f"{NAMESPACE}text")]
    assert "here" in texts and "moment 1." in texts and "computed" in texts
    assert "gone" not in texts


def test_a_role_has_the_colours_of_all_figures():
    for role, color in (colors.ROLE_COLORS | colors.MEMORY_COLORS).items():
        name, text = svg.class_name(role), colors.text_color(color)
        style = svg.style([box()._replace(role=f"event {name}")])
        assert f".{name} rect{{fill:{color};" in style and "rank-1" not in style
        assert f".{name} text{{fill:{text}}}" in style


def test_an_axis_turns_times_into_places():
    axis = Axis(left=100, width=500, top=0, bottom=9, start=2, length=10, unit="ms")
    item = box()._replace(x=7, w=1, role="event timed wait")
    assert axis.place(item)[1:4] == (350, 0, 50)
    assert axis.place(box()) == box()
    assert svg.ticks(axis) == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_item_that_is_nowhere_is_refused_by_its_text(number):
    with pytest.raises(UsageError, match="cannot draw 'lost' at nan|at inf"):
        short([box(x=number, text="lost")])


def test_a_scene_without_a_moment_is_refused():
    with pytest.raises(UsageError, match="there was nothing to show"):
        Scene([], height=1, source="")


def test_two_items_with_one_name_are_refused():
    with pytest.raises(UsageError, match="two items are named 'a' in: moment 0"):
        short([box(), box(x=5)])


def test_a_value_that_no_slider_has_is_refused():
    with pytest.raises(UsageError, match=r"ranks: 5 is not among \[2, 3\]"):
        varied(
            lambda ranks: [], {"ranks": [2, 3]}, at={"ranks": 5}, height=1, source=""
        )


def test_a_scene_without_items_is_harmless():
    assert len(payload_of(short([])._repr_html_())["states"]) == 0


def test_a_label_has_no_frame():
    picture = still(short([label("a", (3, 4), "text")])._repr_html_())
    group = next(g for g in picture.iter(f"{NAMESPACE}g") if g.get("class") == "label")
    assert [part.tag for part in group] == [f"{NAMESPACE}text"]


def test_an_unknown_scene_is_refused_as_everywhere():
    with pytest.raises(AttributeError, match="has no attribute 'scenery'"):
        _ = scenes.scenery


@pytest.mark.parametrize("name", scenes.__all__)
def test_every_scene_says_what_it_is(name):
    assert getattr(scenes, name).__doc__


def test_numbers_are_sorted_on_a_slider_words_are_not_and_one_value_has_none():
    def make(**values):
        return [Moment(str(values), ())]

    switches = {"n": [4, 2], "when": ["late", "early"], "fixed": 7}
    scene = varied(make, switches, height=10, source="computed")
    assert scene.parameters == {"n": [2, 4], "when": ["late", "early"]}
    assert scene.at == {"n": 4, "when": "late"}
    assert scene.moments[0].title == "{'n': 4, 'when': 'late', 'fixed': 7}"
    with pytest.raises(UsageError, match="n: a slider needs at least one value"):
        varied(make, {"n": []}, height=10, source="computed")


def test_a_page_above_60_kb_is_refused_in_a_sentence():
    moments = [Moment(f"{i} {'x' * 1000}", ()) for i in range(100)]
    scene = Scene(moments, height=10, source="")
    with pytest.raises(UsageError, match=r"takes \d+ kB, at most 60: .*fewer values"):
        scene._repr_html_()
