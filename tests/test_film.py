"""The README's moving picture: the stored scene of lesson 04, played once."""

import re
import xml.etree.ElementTree as tree

from course_lib.scenes.items import Axis, Item, Moment
from course_lib.scenes.scene import Scene, payload
from tests import film

AXIS = Axis(left=100, width=500, top=0, bottom=40, start=0, length=10, unit="ms")


def data(*positions):
    """The payload of a scene with one event, and a ball at each of these places."""
    event = Item("e", 1, 5, 2, 15, "event timed forward", "go")
    balls = [
        () if x is None else (Item("ball", x, 20, 9, 9, "rank-1"),) for x in positions
    ]
    moments = [Moment(f"at {x}", (event, *ball)) for x, ball in zip(positions, balls)]
    return payload(Scene(moments, height=50, source="computed", axis=AXIS))


def test_the_scene_of_the_lesson_can_be_filmed():
    assert tree.fromstring(film.film(film.stored())).tag.endswith("svg")


def test_it_plays_once_and_not_where_people_want_no_motion():
    text = film.film(data(0, 30))
    assert f"animation:{film.SECONDS}s linear 1 both" in text
    assert "prefers-reduced-motion:reduce){*{animation:none!important}}" in text
    assert "infinite" not in text and "<script" not in text


def test_what_moves_has_a_keyframe_for_each_moment_and_ends_where_it_is():
    text = film.film(data(0, 30, 300))
    frames = re.search(r"@keyframes m0{(.*?)}}", text)[1]
    assert [*map(float, re.findall(r"translate\((\d+\.\d)px", frames))] == [0, 30, 300]
    assert "transform:translate(300.0px,20.0px)" in text


def test_what_leaves_is_not_seen_in_the_end():
    text = film.film(data(0, 30, None))
    frames = re.search(r"@keyframes m0{(.*?)}}", text)[1]
    assert re.findall(r"opacity:(\d)", frames) == ["1", "1", "0"]


def test_what_stays_is_drawn_once_and_the_last_title_stays():
    root = tree.fromstring(film.film(data(0, 30)))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("go") == 1 and "at 30" in texts
    hidden = [g for g in root if "opacity:0" in g.get("style", "")]
    assert len(hidden) == 1  # the title before
