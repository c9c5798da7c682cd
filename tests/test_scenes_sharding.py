"""What ranks hold and send under DDP and ZeRO: by formulas, and as it is drawn."""

import itertools
from fractions import Fraction

import pytest

from course_lib.errors import UsageError
from course_lib.scenes import sharding
from course_lib.scenes.sharded_step import (
    BYTES,
    KINDS,
    STAGES,
    ShardedModel,
    step_moments,
)
from course_lib.text import size
from tests.moments import items, shown

FLOAT32, MIXED = BYTES
COUNT = 12_000_000
PLANS = list(itertools.product(STAGES, (2, 4), BYTES))


@pytest.fixture(scope="module")
def scene():
    return sharding(parameters=COUNT)


def model(stage, ranks, numbers=FLOAT32, *, blocks=4, count=COUNT):
    return ShardedModel(STAGES.index(stage), ranks, blocks, count, BYTES[numbers])


def step(*plan, **more):
    return step_moments(model(*plan, **more))


def totals(*plan, **more):
    """The bytes that a rank holds, moment by moment, per parameter."""
    sharded = model(*plan, **more)
    held = (sharded.held(moment) for moment in step_moments(sharded))
    return [sum(kinds.values()) / sharded.parameters for kinds in held]


def titles(*plan):
    return [moment.title for moment in step(*plan)]


# --- bytes


@pytest.mark.parametrize("blocks", [1, 3, 4])
@pytest.mark.parametrize(("stage", "ranks", "numbers"), PLANS)
def test_between_steps_only_shares_of_what_a_stage_shards_are_held(
    stage, ranks, numbers, blocks
):
    weights, _, state = BYTES[numbers]
    weights = Fraction(weights, ranks if stage == "ZeRO-3" else 1)
    state = Fraction(state, 1 if stage == "DDP" else ranks)
    assert totals(stage, ranks, numbers, blocks=blocks)[0] == weights + state


@pytest.mark.parametrize("blocks", [1, 3, 4])
@pytest.mark.parametrize(("stage", "ranks", "numbers"), PLANS)
def test_the_fullest_moment_has_one_block_whole_of_what_a_stage_shards(
    stage, ranks, numbers, blocks
):
    weights, gradients, state = BYTES[numbers]
    part = Fraction(1, ranks)
    whole = part + (1 - part) / blocks  # all shares of a block, one of the others
    expected = {
        "DDP": weights + gradients + state,
        "ZeRO-1": weights + gradients + part * state,
        "ZeRO-2": weights + whole * gradients + part * state,
        "ZeRO-3": whole * (weights + gradients) + part * state,
    }
    assert max(totals(stage, ranks, numbers, blocks=blocks)) == expected[stage]


def test_of_the_papers_model_a_rank_of_64_holds_what_its_figure_1_says():
    """7.5 billion parameters in 16 bits; gradients whole up to ZeRO-1."""
    held = {stage: totals(stage, 64, MIXED) for stage in STAGES}
    shown = [max(held["DDP"]), max(held["ZeRO-1"]), held["ZeRO-2"][-1]]
    shown.append(held["ZeRO-3"][-1])
    gigabytes = [f"{float(count) * 7.5:.1f}" for count in shown]
    assert gigabytes == ["120.0", "31.4", "16.6", "1.9"]


@pytest.mark.parametrize("blocks", [1, 3, 4])
@pytest.mark.parametrize(("stage", "ranks", "numbers"), PLANS)
def test_zero_3_sends_half_as_much_again_as_ddp_the_others_as_much(
    stage, ranks, numbers, blocks
):
    sharded = model(stage, ranks, numbers, blocks=blocks)
    ring = 2 * Fraction(ranks - 1, ranks) * BYTES[numbers][1] * COUNT
    assert sharded.ddp_sends == ring
    sent = [moment.sent for moment in step_moments(sharded)]
    assert sent == sorted(sent) and sent[0] == 0
    assert sent[-1] == ring * (Fraction(3, 2) if stage == "ZeRO-3" else 1)


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_gathered_or_reduced_has_been_sent(stage):
    """In each moment but these nothing is sent."""
    moments = step(stage, 4)
    for before, after in itertools.pairwise(moments):
        words = "all-gather", "reduce-scatter", "all-reduce"
        sends = any(word in after.title.lower() for word in words)
        assert (after.sent > before.sent) == sends, after.title


def test_each_collective_of_zero_3_is_of_one_block():
    sent = [moment.sent for moment in step("ZeRO-3", 4)]
    parts = {b - a for a, b in itertools.pairwise(sent) if b > a}
    assert parts == {Fraction(3, 4) * 4 * COUNT / 4}
    assert sent[-1] / parts.pop() == 3 * 4


# --- moments


def test_the_moments_of_ddp():
    assert titles("DDP", 4) == [
        "Between two steps: a rank has all weights, and the whole optimizer state.",
        "Forward: each rank has all weights. Nothing is sent.",
        *(
            f"Backward, block {block}: gradients appear, of each rank's own samples."
            for block in (4, 3, 2, 1)
        ),
        "All-reduce: each rank gets the mean of all gradients.",
        "The optimizer updates all weights, on each rank the same.",
        "DDP: a rank held at most 192 MB, and sent 72 MB.",
    ]


def test_zero_1_reduces_all_gradients_and_gathers_all_weights():
    assert titles("ZeRO-1", 4)[-4:] == [
        "Reduce-scatter: a rank's share is the mean's. The rest stays, unused.",
        "The optimizer of a rank updates its own share. The other weights are old now.",
        "All-gather: each rank gets the new weights of the other shares.",
        "ZeRO-1: a rank held at most 62.5 % of DDP's bytes, and sent as much.",
    ]
    moments = step("ZeRO-1", 4)
    assert {moment.gradients for moment in moments[5:7]} == {
        ("local",) * 4,
        ("part",) * 4,
    }
    assert [moment.weights[0] for moment in moments[-4:]] == [
        "all",
        "old",
        "new",
        "new",
    ]


def test_zero_2_reduces_each_block_as_soon_as_its_gradients_are_there():
    assert [moment.gradients for moment in step("ZeRO-2", 2)[2:6]] == [
        ("none", "none", "none", "local"),
        ("none", "none", "none", "own"),
        ("none", "none", "local", "own"),
        ("none", "none", "own", "own"),
    ]


def test_zero_3_gathers_each_block_twice_and_frees_it():
    moments = step("ZeRO-3", 2)
    whole = [
        [block for block, how in enumerate(moment.weights) if how == "all"]
        for moment in moments
    ]
    forward = [[0], [], [1], [], [2], [], [3], []]
    backward = [held for block in (3, 2, 1, 0) for held in ([block], [block], [])]
    assert whole == [[], *forward, *backward, [], []]
    assert titles("ZeRO-3", 2)[9:12] == [
        "Backward, block 4: an all-gather brings its weights again.",
        "Backward, block 4: gradients appear, of each rank's own samples.",
        "Reduce-scatter, block 4: a rank keeps its share of the mean, and frees the "
        "rest.",
    ]
    assert titles("ZeRO-3", 2)[-1] == (
        "ZeRO-3: a rank held at most 56.2 % of DDP's bytes, and sent 1.5 times as much."
    )


def test_titles_fit_in_a_line(scene):
    for moments in scene.runs.values():
        assert all(len(moment.title) <= 84 for moment in moments)


# --- what is drawn


def cells(moment, kind):
    """The shares that are drawn of a kind, as (block, share)."""
    names = (kind, "new") if kind == "weights" else (kind,)
    found = {}
    for item in shown(moment):
        name, *place = item.id.rsplit(" ", 2)
        if name in names and "event rank-" in item.role:
            found.setdefault(tuple(map(int, place)), []).append(item)
    return found


def drawn_bytes(moment, kind, sharded):
    """The bytes of a kind on rank 0, as many as its row has cells."""
    row = items(moment)["rank 0"]
    held = sum(
        any(item.y <= row.y < item.y + item.h for item in found)
        for found in cells(moment, kind).values()
    )
    return held * Fraction(sharded.whole(kind), sharded.ranks * sharded.blocks)


def test_it_begins_with_ddp_on_four_ranks(scene):
    assert scene.parameters == {
        "stage": ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"],
        "ranks": [2, 4],
        "numbers": ["float32", "16 bits + float32 copy"],
    }
    assert scene.at == {"stage": "DDP", "ranks": 4, "numbers": "16 bits + float32 copy"}


def test_a_row_has_as_many_cells_as_bytes_are_said(scene):
    for plan, moments in scene.runs.items():
        sharded = model(*plan)
        for moment in moments:
            at = items(moment)
            held = {kind: drawn_bytes(moment, kind, sharded) for kind in KINDS}
            for kind, count in held.items():
                assert at[f"count {kind}"].text == size(float(count)), moment.title
            assert at["held"].text == size(float(sum(held.values())))


def test_a_share_alone_lies_in_the_row_of_its_owner_and_has_its_colour(scene):
    for plan, moments in scene.runs.items():
        for moment in moments:
            at = items(moment)
            rows = [at[f"rank {rank}"] for rank in range(plan[1])]
            for kind in KINDS:
                for (_, share), found in cells(moment, kind).items():
                    for item in found:
                        assert f"rank-{share}" in item.role
                        whole = item.h > rows[0].h
                        y, high = rows[0].y, rows[-1].y + rows[-1].h - rows[0].y
                        if not whole:
                            y, high = rows[share].y, rows[share].h
                        assert (item.y, item.h) == (y, high)


def test_pale_are_gradients_of_own_samples_and_old_weights(scene):
    moments = scene.runs["ZeRO-1", 4, FLOAT32]
    pale = [
        {item.id.split()[0] for item in moment.items if "faded" in item.role}
        for moment in moments
    ]
    both = {"gradients", "weights"}
    expected = [set()] * 2 + [{"gradients"}] * 5 + [both] + [{"gradients"}] * 2
    assert pale == expected
    old = cells(moments[-3], "weights")[0, 2]
    assert [("faded" in item.role, item.h > 100) for item in old] == [
        (True, True),
        (False, False),
    ]


def test_an_all_gather_grows_out_of_the_row_of_the_owner(scene):
    before, after = (
        items(moment) for moment in scene.runs["ZeRO-1", 4, FLOAT32][-3:-1]
    )
    assert before["new 0 2"].h < after["new 0 2"].h and "weights 0 2" not in after
    between, forward = (
        items(moment) for moment in scene.runs["ZeRO-3", 4, FLOAT32][:2]
    )
    assert between["weights 0 2"].h < forward["weights 0 2"].h
    assert between["weights 1 2"] == forward["weights 1 2"]


def test_bars_are_as_long_as_shares_of_what_ddp_holds_and_sends(scene):
    for plan, moments in scene.runs.items():
        sharded, most = model(*plan), 0
        for moment, data in zip(moments, step(*plan), strict=True):
            at = items(moment)
            line = at["DDP"].x
            now = sum(sharded.held(data).values())
            most = max(most, now)
            assert at["held"].w == round(line * now / (16 * COUNT))
            assert at["at most"].text == size(float(most))
            assert at["most"].w == round(line * most / (16 * COUNT))
            sent = at["sent"] if data.sent else at["nothing"]
            assert sent.text == size(float(data.sent))
            assert sent.w == round(line * data.sent / sharded.ddp_sends)


def test_a_frame_is_around_the_block_of_which_a_title_speaks(scene):
    for moment in scene.runs["ZeRO-3", 4, FLOAT32]:
        if "block" in moment.title.lower():
            number = int(moment.title.lower().partition("block ")[2][0])
            kind = "gradients"
            if "gather" in moment.title or "computed" in moment.title:
                kind = "weights"
            at = items(moment)
            frame, place = at["around"], at[f"place {kind} {number - 1}"]
            assert (frame.x, frame.w) == (place.x - 3, place.w + 6)


def test_each_cell_says_what_it_is(scene):
    tips = {item.id: item.tip for item in scene.moments[-1].items}
    assert tips["gradients 2 1"] == "gradients of block 3, rank 1's share"
    assert tips["place weights 0"] == "weights of block 1"
    assert tips["rank 1"] == "rank 1: its shares have this colour"


@pytest.mark.parametrize("count", [1, COUNT, 123_456_789, 10**13])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_all_stays_in_the_figure_and_no_texts_meet(blocks, count):
    scene = sharding(parameters=count, blocks=blocks)
    for moments in scene.runs.values():
        for moment in moments:
            for item in moment.items:
                assert 0 <= item.x <= item.x + item.w <= 640
                assert 0 <= item.y <= item.y + item.h <= scene.size[1]
            spans = [span(item) for item in moment.items if item.text]
            for (y, *one), (other_y, *other) in itertools.combinations(spans, 2):
                apart = one[1] < other[0] or other[1] < one[0]
                assert apart or abs(y - other_y) >= 14, moment.title


def span(item):
    """The height of a text, and where it begins and ends, from left to right."""
    wide = 6.2 * len(item.text)
    labelled = "label" in item.role and "middle" not in item.role
    left = item.x if labelled else item.x + item.w / 2 - wide / 2
    assert left >= -1 and left + wide <= 641
    return item.y + item.h / 2, left, left + wide


def test_a_text_in_a_bar_fits_into_it(scene):
    for moments in scene.runs.values():
        for moment in moments:
            for item in moment.items:
                if item.id in ("held", "sent"):
                    assert 6.6 * len(item.text) + 4 < item.w


@pytest.mark.parametrize("count", [1, COUNT, 124_439_808, 999_999_999_999])
def test_the_page_is_small(count):
    assert len(sharding(parameters=count)._repr_html_()) < 60_000


# --- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": 0}, "parameters cannot be 0: expected a whole number from 1"),
        ({"parameters": 1.5e9}, "parameters cannot be 1500000000.0: expected a whole"),
        ({"parameters": [10, 20]}, r"parameters cannot be \[10, 20\]"),
        ({"parameters": None}, "parameters cannot be None"),
        ({"blocks": 0}, "blocks cannot be 0: expected a whole number from 1 to 4"),
        ({"blocks": 5}, "blocks cannot be 5: expected a whole number from 1 to 4"),
        ({"blocks": True}, "blocks cannot be True"),
    ],
)
def test_what_is_no_size_of_a_model_is_refused_in_a_sentence(change, words):
    with pytest.raises(UsageError, match=words):
        sharding(**{"parameters": COUNT} | change)
