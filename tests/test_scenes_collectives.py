"""Chunks move as schedules say, bills grow as ranks send, measured ones too."""

from collections import namedtuple
from fractions import Fraction

import pytest

from course_lib.accelerators.collectives import (
    ALL_REDUCES,
    COLLECTIVES,
    chunked_ring,
)
from course_lib.errors import UsageError
from course_lib.scenes import all_reduces, collective, messages
from course_lib.scenes.arrows import assign_lanes
from tests.moments import items, shown, titles
from tests.played import states

SCENE = {ranks: collective(ranks=ranks) for ranks in range(1, 9)}
Meter = namedtuple("Meter", "world_size messages more", defaults=[()])
Message = namedtuple("Message", "source target bytes round tag", defaults=[0])


def held(moment):
    """The ranks whose parts lie in each chunk: `{(rank, row): [0, 2]}`."""
    parts, at = {}, items(moment)
    ranks = [at[name] for name in at if name.startswith("box ")]
    rows = [at[name].y for name in at if name.startswith("label ")]
    for piece in shown(moment):
        if piece.role == "card" or piece.role.startswith("rank-"):
            rank = sum(box.x <= piece.x for box in ranks) - 1
            row = sum(y < piece.y + piece.h for y in rows) - 1
            every = [*range(len(ranks))]
            origins = every if piece.role == "card" else [int(piece.role[5:])]
            parts.setdefault((rank, row), []).extend(origins)
    return {place: sorted(origins) for place, origins in parts.items()}


def run_of(name, ranks):
    """The moments of a collective."""
    return SCENE[ranks].runs[name,]


def origins(plan):
    """What each rank has after each round of a real run, as the ranks it came from."""
    pieces = [[(rank,)] * len(own) for rank, own in enumerate(plan.starts)]
    for ranks in states(plan, pieces):
        yield [{c: sorted(*part) for c, part in parts.items()} for parts in ranks]


# --- chunks that move


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_chunk_is_drawn_with_what_a_run_has_added(name, ranks):
    plan = COLLECTIVES[name](ranks)
    _, *moments, last = run_of(name, ranks)
    _, *runs = origins(plan)
    swapped = name == "all-to-all"
    for moment, parts, moves in zip(moments, runs, plan.rounds, strict=True):
        for move in moves:
            for chunk in move.chunks:
                row = move.source if swapped else chunk
                drawn = held(moment)[move.target, row]
                assert drawn == parts[move.target][chunk]
    drawn = held(last)
    for rank, own in enumerate(plan.ends):
        rows = [drawn.pop((rank, c // ranks if swapped else c)) for c in own]
        assert rows == [parts[rank][chunk] for chunk in own]
    assert drawn == {}


def test_a_part_keeps_its_identity_on_its_way_round_the_ring():
    moments = run_of("all-reduce", 4)[:4]
    places = [items(moment)["1 0"] for moment in moments]  # chunk 0 of rank 1
    ranks = [items(moments[0])[f"box {rank}"].x for rank in (1, 2, 3, 0)]
    assert [sum(x <= at.x for x in sorted(ranks)) - 1 for at in places] == [1, 2, 3, 0]
    assert len({at.y for at in places}) == 1


def test_a_copy_comes_out_of_its_source():
    before, after = run_of("broadcast", 2)[:2]
    copy = items(before)["0 0 1"]
    source = items(before)["0 0"]
    assert copy.role == "rank-0 gone" and copy[1:5] == source[1:5]
    assert items(after)["0 0 1"].role == "rank-0" and "0 0" in items(after)


def test_titles_say_what_happens_in_a_round():
    def told(name, ranks):
        return [moment.title for moment in run_of(name, ranks)]

    assert told("all-reduce", 4)[2:5:2] == [
        "Round 2: each rank sends one chunk to the right and adds what it gets.",
        "Round 4: each rank sends one chunk to the right and keeps what it gets.",
    ]
    assert told("reduce", 4) == [
        "Reduce, binomial tree: 4 ranks; each has a tensor.",
        "Round 1: ranks 1 and 3 send the whole tensor to the left, where it is added.",
        "Round 2: rank 2 sends the whole tensor to rank 0, which adds it.",
        "After 2 rounds rank 0 has the sum. The busiest sent 1 tensor.",
    ]
    assert told("broadcast", 8)[2] == (
        "Round 2: ranks 0 and 4 send the whole tensor 2 ranks to the right."
    )


def test_no_piece_leaves_its_rank_and_no_rank_the_figure():
    for ranks in range(1, 9):
        scene = SCENE[ranks]
        for moment in run_of("all-reduce", ranks):
            box = items(moment)["box 0"]
            for item in shown(moment):
                assert item.x >= 0 and item.x + item.w <= 640
                assert item.y + item.h <= scene.size[1]
                if item.text.isdigit():
                    assert box.y + 20 < item.y < item.y + item.h < box.y + box.h


def test_one_rank_sends_nothing():
    for moments in SCENE[1].runs.values():
        assert [moment.title for moment in moments] == ["1 rank: nothing is sent."]
    assert titles(all_reduces(ranks=1)) == ["1 rank: nothing is sent."]
    assert titles(messages(Meter(1, ())))[-1] == "No rank sent a message."


def test_arrows_of_a_lane_do_not_overlap():
    ring = [(rank, (rank + 1) % 4) for rank in range(4)]
    assert assign_lanes(ring) == {(0, 1): 0, (1, 2): 0, (2, 3): 0, (3, 0): 1}
    assert assign_lanes([(0, 3), (3, 0), (1, 2), (2, 1)]) == {
        **dict.fromkeys([(1, 2), (2, 1)], 0),
        **dict.fromkeys([(0, 3), (3, 0)], 1),
    }


# --- bills


def bill(moment, name=""):
    """The heights of the bars of a panel."""
    return [i.h for i in moment.items if i.id.startswith(f"bar {name} ")]


def heads(moment):
    return [i.text for i in moment.items if i.role == "label strong"]


def test_bars_are_as_high_as_what_ranks_have_sent():
    scene = all_reduces(ranks=8)
    for number, plan in enumerate(make(8) for make in ALL_REDUCES.values()):
        for rounds, moment in enumerate(scene.moments):
            drawn = [Fraction(high) / 16 for high in bill(moment, f"{number} ")]
            assert drawn == plan.sent(rounds)
    bars = [item for item in moment.items if item.id.startswith("bar ")]
    assert {bar.y + bar.h for bar in bars} == {items(moment)["line 0"].y}


def test_titles_say_who_is_done():
    assert [t for t in titles(all_reduces(ranks=8)) if "done" in t] == [
        "Round 6: binomial tree is done.",
        "Round 7: whole-tensor ring is done.",
        "Round 10: double binary tree is done.",
        "Round 14: reduce + broadcast and chunked ring are done.",
    ]


def test_the_bills_of_eight_ranks_and_who_needs_fewest_rounds():
    last = all_reduces(ranks=8).moments[-1]
    assert heads(last) == [
        *("7 tensors", "7 tensors", "1.75 tensors", "3 tensors", "2 tensors")
    ]
    assert last.title == (
        "Fewest rounds: binomial tree, 6. Smallest bill: chunked ring, 1.75 tensors."
    )


def test_on_the_clock_of_large_messages_a_chunk_is_quick():
    large = [moment.title for moment in all_reduces(ranks=8).runs["large",]]
    assert large[2] == "After the time of 2 tensors: chunked ring is done."
    assert large[3] == (
        "After the time of 3 tensors: double binary tree in 4 blocks is done."
    )
    assert large[-1] == (
        "First: chunked ring, after the time of 1.75 tensors. "
        "Last: reduce + broadcast, 14."
    )


def ring(ranks, size=100):
    """The messages of a chunked ring, as a meter lists them."""
    rows = enumerate(chunked_ring(ranks).rounds, 1)
    return Meter(
        ranks,
        tuple(
            Message(move.source, move.target, size, number)
            for number, moves in rows
            for move in moves
        ),
    )


def test_a_run_is_played_as_it_was_measured():
    scene = messages(ring(4), tensor=400)
    assert titles(scene) == [
        "4 ranks, and nothing is sent yet.",
        *(f"Round {n}: each rank sends 100 B to the right." for n in range(1, 7)),
        "In 6 rounds each rank sent: 600 B, 1.5 tensors.",
    ]
    assert [bill(m)[2] / bill(scene.moments[-1])[2] for m in scene.moments] == (
        pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1])
    )
    last = items(scene.moments[-1])
    assert (last["bill 3 2"].text, last["bill 3 1"].text) == ("600 B", "1.5 tensors")
    assert scene.source == "measured: the messages of 4 ranks"


def test_a_message_moves_from_its_source_to_its_target():
    meter = Meter(3, (Message(0, 2, 50, 1), Message(1, 0, 7, 4), Message(2, 0, 9, 4)))
    before, first, second, last = messages(meter).moments
    bars = [items(before)[f"bar  {rank}"].x for rank in range(3)]
    assert items(before)["block 1 0 2"][1] == bars[0]
    assert items(first)["block 1 0 2"][1] == bars[2]
    assert first.title == "Round 1: rank 0 sends 50 B to rank 2."
    assert second.title == "Round 4: 2 messages, 16 B in all."
    assert last.title == "In 2 rounds rank 0 sent most: 50 B."


def test_those_that_sent_most_are_all_named():
    meter = Meter(3, (Message(0, 2, 50, 1), Message(1, 0, 50, 1), Message(2, 1, 7, 1)))
    last = "In 1 round ranks 0, 1 sent most: 50 B, 0.5 tensors."
    assert titles(messages(meter, tensor=100))[-1] == last


def test_no_message_glides_back_to_its_source():
    moments = messages(ring(4)).moments
    for before, after in zip(moments, moments[1:]):
        landed = {i.id for i in shown(before) if i.id.startswith("block ")}
        assert not landed & items(after).keys()


def test_the_rest_of_many_messages_is_in_the_bill_and_the_title_says_so():
    many = Meter(
        2, tuple(Message(0, 1, 10, n) for n in range(1, 101)), ((5, 40), (0, 0))
    )
    scene = messages(many)
    assert len(scene.moments) == 17
    assert titles(scene)[-1] == (
        "The rest is not shown one by one. In all rank 0 sent most: 1.04 kB."
    )


# --- pages, and what is refused


@pytest.mark.parametrize(
    "scene",
    [
        collective(ranks=[4, 3]),
        all_reduces(),
        messages(ring(8), tensor=800),
        messages(
            Meter(
                8,
                tuple(
                    Message(rank, (rank + n) % 8, 7**rank * n, n)
                    for n in range(1, 100)
                    for rank in range(8)
                    if n % 8
                ),
            ),
            tensor=1e5,
        ),
    ],
)
def test_pages_are_small(scene):
    assert len(scene._repr_html_()) < 60_000


@pytest.mark.parametrize("ranks", [0, 9, 2.0, "4", None, True])
def test_what_is_no_number_of_ranks_is_refused(ranks):
    for call in (
        lambda: collective(ranks=ranks),
        lambda: all_reduces(ranks=ranks),
        lambda: messages(Meter(ranks, ())),
    ):
        with pytest.raises(UsageError, match="ranks cannot be .* from 1 to 8"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: collective(ranks=[]), "ranks: a slider needs at least one value"),
        (lambda: all_reduces(ranks=[]), "ranks: a slider needs at least one value"),
        (
            lambda: messages([]),
            "needs the meter of a launch.*: found \\[\\]",
        ),
        (lambda: messages(None), "needs the meter of a launch.*: found None"),
        (lambda: messages(ring(2), tensor=0), "tensor cannot be 0"),
        (lambda: messages(ring(2), tensor="4 kB"), "tensor cannot be '4 kB'"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(call, words):
    with pytest.raises(UsageError, match=words):
        call()
