"""The scene that deals samples, against torch's own sampler."""

from itertools import pairwise

import pytest
from torch.utils.data import DistributedSampler

from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.scenes.items import fitting


def hands(moment, ranks):
    """The samples of each rank in a moment, from where the cards lie."""
    cards = [i for i in moment.items if i.role.startswith("rank-")]
    rows = sorted({item.y for item in moment.items if item.id.startswith("row")})
    of = {y + 3: rank for rank, y in enumerate(rows)}
    dealt = [[] for _ in range(ranks)]
    for card in sorted(cards, key=lambda card: card.x):
        dealt[of[card.y]].append(int(card.text))
    return dealt


@pytest.mark.parametrize("samples", [1, 8, 10, 12])
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_each_rank_gets_what_torch_deals(samples, ranks, shuffle, drop_last):
    settings = {"shuffle": shuffle, "drop_last": drop_last}
    scene = scenes.dealing(samples=samples, ranks=ranks, **settings)
    expected = [
        list(DistributedSampler(range(samples), ranks, rank, **settings))
        for rank in range(ranks)
    ]
    assert hands(scene.moments[-1], ranks) == expected


def test_a_card_is_dealt_at_a_time_and_stays_itself():
    moments = scenes.dealing(samples=10, ranks=4).moments
    lying = [sum(i.role.startswith("rank-") for i in m.items) for m in moments]
    assert lying == [*range(13), 12]
    assert {"card 3"} < {item.id for item in moments[0].items}
    assert {"card 3"} < {item.id for item in moments[-1].items}


def test_what_is_dealt_twice_is_marked_and_counted():
    last = scenes.dealing(samples=10, ranks=4).moments[-1]
    again = [item.text for item in last.items if "again" in item.role]
    assert again == ["0", "1"] and last.title == "4 ranks read 3 samples each, 2 twice."


def test_what_is_left_out_stays_in_its_place():
    last = scenes.dealing(samples=10, ranks=4, drop_last=True).moments[-1]
    assert [item.text for item in last.items if item.role == "card"] == ["8", "9"]
    assert last.title.endswith("2 left out.")


def test_the_first_value_is_shown_first_and_sliders_are_in_order():
    scene = scenes.dealing(samples=[10, 8], ranks=[4, 2, 3], drop_last=[False, True])
    assert scene.at == {"samples": 10, "ranks": 4, "drop_last": False}
    assert scene.parameters["ranks"] == [2, 3, 4]
    assert len(scene.runs) == 12 and len(scene._repr_html_()) < 60_000


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": 0},
        {"ranks": [2, 0]},
        {"ranks": 2.5},
        {"samples": 33},
        {"samples": True},
        {"ranks": 1000},
        {"shuffle": "yes"},
        {"drop_last": [False, 0]},
    ],
)
def test_what_cannot_be_dealt_is_a_sentence(bad):
    [name] = bad
    with pytest.raises(UsageError, match=f"{name} cannot be .*: expected"):
        scenes.dealing(**{"samples": 4, "ranks": 2} | bad)


@pytest.mark.parametrize(("samples", "ranks"), [(30, 3), (32, 2), (21, 1), (22, 16)])
def test_numbers_have_room_on_their_cards_and_cards_do_not_touch(samples, ranks):
    for moment in scenes.dealing(samples=samples, ranks=ranks).moments:
        cards = [i for i in moment.items if i.id.startswith(("card", "again"))]
        assert all(fitting(card.text, card.w) for card in cards)
        assert all(card.x + card.w <= 640 for card in cards)
        for one, other in pairwise(sorted(cards, key=lambda card: (card.y, card.x))):
            assert one.y < other.y or one.x + one.w < other.x - 3.9


def test_more_samples_than_a_row_has_room_for_are_a_sentence():
    sentence = "22 samples cannot be dealt to 1 rank: the row of a rank has room for 21"
    with pytest.raises(UsageError, match=sentence):
        scenes.dealing(samples=[8, 22], ranks=[2, 1])


def test_a_slider_needs_a_value():
    with pytest.raises(UsageError, match="samples: a slider needs at least one value"):
        scenes.dealing(samples=[])


def test_one_sample_is_no_plural():
    last = scenes.dealing(samples=4, ranks=4).moments[-1]
    assert last.title == "4 ranks read 1 sample each."
