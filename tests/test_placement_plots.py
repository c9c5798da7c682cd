"""What ranks bring back of a DTensor, and the figure of who holds what of it."""

import dataclasses
import io
import re

import pytest
import torch
import torch.distributed as dist
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from torch import nn
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.placement_types import _StridedShard

import course_lib as cl
from course_lib.accelerators.dtensors import is_dtensor, local_part, part_of
from course_lib.clusters.fake_ranks import fake_ranks
from course_lib.colors import rank_color
from course_lib.errors import UsageError
from course_lib.launching import payload
from course_lib.plots import figure
from course_lib.plots.sharding import plot_sharding
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

STRIDED = _StridedShard(0, split_factor=2)


def dealt(shape, mesh, placements, *, axes=None):
    """What each rank of a mesh holds of a tensor with the numbers 0, 1, 2 …"""
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return each(mesh, axes, lambda m: distribute(whole, m, placements))


def distribute(whole, mesh, placements):
    return distribute_tensor(whole, mesh, placements, src_data_rank=None)


def each(shape, axes, make):
    """The parts of what `make(mesh)` gives on each rank."""
    parts, world_size = [], torch.Size(shape).numel()
    for rank in range(world_size):
        with fake_ranks(world_size, rank=rank):
            names = {"mesh_dim_names": axes} if axes else {}
            mesh = dist.device_mesh.init_device_mesh("cpu", shape, **names)
            parts.append(part_of(make(mesh)))
    return parts


def local_of(part):
    """What the spans say that a part of the tensor of `dealt` should be."""
    index = torch.arange(torch.Size(part.shape).numel()).reshape(part.shape)
    for dim, spans in enumerate(part.spans):
        pieces = [index.narrow(dim, start, stop - start) for start, stop in spans]
        index = torch.cat(pieces or [index.narrow(dim, 0, 0)], dim)
    return index


# --- what arrives


@pytest.mark.parametrize(
    ("shape", "mesh", "placements"),
    [
        ((192, 64), (4,), [Shard(0)]),
        ((10, 6), (3,), [Shard(0)]),
        ((3, 8), (4,), [Shard(0)]),
        ((5,), (4,), [Shard(0)]),
        ((6, 8), (2,), [Replicate()]),
        ((9, 7), (2, 2), [Shard(0), Shard(1)]),
        ((9, 7), (2, 2), [Shard(0), Shard(0)]),
        ((12, 4), (2, 2), [Replicate(), Shard(0)]),
        ((13, 4), (2, 2), [STRIDED, Shard(0)]),  # fully_shard over tensor parallelism
        ((13, 4), (2, 2), [STRIDED, Replicate()]),  # rows that do not lie together
        ((2, 3, 8), (2, 3), [Replicate(), Shard(2)]),
    ],
)
def test_a_part_says_which_numbers_of_the_tensor_it_has(shape, mesh, placements):
    for part in dealt(shape, mesh, placements):
        assert torch.equal(part.local, local_of(part))
        assert part.shape == shape and part.mesh_shape == mesh


def test_a_part_is_plain_data_in_pytorchs_words():
    parts = dealt((192, 64), (2, 2), [Replicate(), Shard(0)], axes=("dp", "tp"))
    part = parts[3]
    assert part.placements == ("Replicate()", "Shard(0)")
    assert (part.mesh_shape, part.mesh_axes) == ((2, 2), ("dp", "tp"))
    assert part.offsets == (96, 0) and part.spans == (((96, 192),), ((0, 64),))
    assert repr(part) == (
        "<i64[96, 64] of [192, 64] at [96, 0]: Replicate() over dp=2, Shard(0) over"
        " tp=2>"
    )
    assert "Shard(0) over tp=2" in part._repr_html_()
    assert type(part.local) is torch.Tensor


def test_a_dtensor_is_pickled_as_the_part_of_its_rank():
    file = io.BytesIO()
    with fake_ranks(4, rank=1):
        mesh = dist.device_mesh.init_device_mesh("cpu", (4,))
        weight = nn.Parameter(distribute(torch.ones(8, 3), mesh, [Shard(0)]))
        assert is_dtensor(weight) and local_part(weight).shape == (2, 3)
        payload.dump({"weight": weight, "same": weight, "loss": 1.0}, file)
    assert b"torch.distributed" not in file.getvalue()  # nor does loading import it
    file.seek(0)
    back = payload.load(file)
    assert back["weight"].offsets == (2, 0) and back["loss"] == 1.0
    assert back["same"] is back["weight"]
    file = io.BytesIO()
    payload.dump(back["weight"], file)  # as an argument of the next launch
    file.seek(0)
    assert payload.load(file).shape == (8, 3)


def test_a_part_leaves_the_rest_of_its_memory_behind():
    [first, *_] = dealt((1000, 10), (4,), [Shard(0)])
    assert first.local.untyped_storage().nbytes() == first.local.nbytes


def test_what_is_no_dtensor_is_its_own_part():
    plain = torch.ones(2)
    assert local_part(plain) is plain and local_part(None) is None


def sharded(rank, world_size):
    """FSDP × TP of one layer, HSDP of another, its state; all on four real ranks."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    both, hybrid = nn.Linear(6, 8), nn.Linear(6, 5)
    whole = both.weight.detach().clone()
    parallelize_module(both, mesh["tp"], ColwiseParallel())
    fully_shard(both, mesh=mesh["dp"])
    fully_shard(hybrid, mesh=mesh)
    values = both.weight, hybrid.state_dict(), whole
    dist.destroy_process_group()
    return values


def test_ranks_return_dtensors_and_a_state_of_them():
    results = cl.launch(sharded, world_size=4)
    weights = [both for both, _, _ in results]
    assert [weight.offsets for weight in weights] == [(0, 0), (4, 0), (2, 0), (6, 0)]
    for weight, (_, state, whole) in zip(weights, results):
        [(start, stop)] = weight.spans[0]
        assert torch.equal(weight.local, whole[start:stop])
        assert weight.placements == ("_StridedShard(0, sf=2)", "Shard(0)")
        assert weight.mesh_axes == ("dp", "tp")
        assert [*state] == ["weight", "bias"]
    assert title(plot_sharding(weights)) == "Each of 4 ranks holds 2 of 8 rows"
    biases = [state["bias"] for _, state, _ in results]
    assert [bias.local.shape for bias in biases] == [(3,), (2,)] * 2
    said = title(plot_sharding(biases)).split("\n")
    assert said == [
        "Each of 4 ranks holds 2 to 3 of 5 numbers",
        "each part is held by 2 ranks",
    ]
    assert "<f32[2, 6] of [8, 6] at [0, 0]: _StridedShard" in repr(results)


# --- the figure


def filled(ax):
    """The boxes of parts, top, bottom, left, right, and their colours."""
    boxes = [patch for patch in ax.patches if patch.get_fill()]
    found = {}
    for box in boxes:
        top, left = box.get_y(), box.get_x()
        place = top, top + box.get_height(), left, left + box.get_width()
        found[place] = {to_hex(box.get_facecolor())}
    for stripes in ax.collections:
        assert isinstance(stripes, PolyCollection)
        clip = stripes.get_clip_box()
        [place] = [place for place in found if about(ax, place, clip)]
        found[place] = set(map(to_hex, stripes.get_facecolor()))
    return found


def about(ax, place, clip):
    top, bottom, left, right = place
    corners = ax.transData.transform([(left, bottom), (right, top)])
    wanted = sorted(corners[:, 0]) + sorted(corners[:, 1])
    found = [clip.xmin, clip.xmax, clip.ymin, clip.ymax]
    return all(abs(a - b) < 2 for a, b in zip(wanted, found))


def colors(*ranks):
    return {rank_color(rank) for rank in ranks}


def test_each_part_has_the_colour_the_number_and_the_shape_of_its_rank():
    ax = plot_sharding(dealt((192, 64), (4,), [Shard(0)]))
    assert filled(ax) == {
        (48 * rank, 48 * rank + 48, 0, 64): colors(rank) for rank in range(4)
    }
    assert texts(ax)[1:] == [f"rank {rank}\n48 × 64" for rank in range(4)]
    assert title(ax) == "Each of 4 ranks holds 48 of 192 rows"
    assert [*ax.get_yticks()] == [0, 48, 96, 144, 192]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column", "row")


def test_ranks_that_hold_the_same_part_share_it_in_stripes():
    parts = dealt((12, 4), (2, 2), [Replicate(), Shard(0)], axes=("dp", "shard"))
    ax = plot_sharding(parts)
    assert filled(ax) == {(0, 6, 0, 4): colors(0, 2), (6, 12, 0, 4): colors(1, 3)}
    assert texts(ax)[1:] == ["ranks 0, 2\n6 × 4", "ranks 1, 3\n6 × 4"]
    assert title(ax).endswith("rows\neach part is held by 2 ranks")
    assert texts(ax)[0] == (
        "measured: i64[12, 4], Replicate() over dp=2, Shard(0) over shard=2"
    )


def test_stripes_end_where_their_part_ends():
    ax = plot_sharding(dealt((12, 4), (2, 2), [Replicate(), Shard(1)]))
    assert filled(ax) == {(0, 12, 0, 2): colors(0, 2), (0, 12, 2, 4): colors(1, 3)}


def test_two_axes_of_the_mesh_cut_rows_and_columns():
    ax = plot_sharding(dealt((12, 16), (2, 2), [Shard(0), Shard(1)]))
    assert title(ax) == "Each of 4 ranks holds 6 of 12 rows and 8 of 16 columns"
    assert filled(ax)[6, 12, 0, 8] == colors(2)


def test_fsdp_over_tensor_parallelism_gives_neighbouring_rows_to_other_ranks():
    ax = plot_sharding(dealt((8, 4), (2, 2), [STRIDED, Shard(0)]))
    tops = {place[0]: shade for place, shade in filled(ax).items()}
    assert tops == {0: colors(0), 2: colors(2), 4: colors(1), 6: colors(3)}


def test_rows_that_do_not_lie_together_are_drawn_apart():
    ax = plot_sharding(dealt((8, 4), (2, 2), [STRIDED, Replicate()]))
    tops = {place[0]: shade for place, shade in filled(ax).items()}
    assert tops == {0: colors(0, 1), 2: colors(2, 3), 4: colors(0, 1), 6: colors(2, 3)}
    assert texts(ax)[1:] == ["ranks 0, 1", "ranks 0, 1", "ranks 2, 3", "ranks 2, 3"]
    assert "rank 0 holds rows 0 to 1 and 4 to 5" in ax.alt_text


def test_uneven_parts_have_their_own_sizes():
    ax = plot_sharding(dealt((10, 6), (3,), [Shard(0)]))
    assert [*filled(ax)] == [(0, 4, 0, 6), (4, 8, 0, 6), (8, 10, 0, 6)]
    assert title(ax) == "Each of 3 ranks holds 2 to 4 of 10 rows"


def test_a_rank_that_holds_nothing_is_named():
    ax = plot_sharding(dealt((3, 8), (4,), [Shard(0)]))
    assert title(ax) == "3 of 4 ranks hold 1 of 3 rows\nrank 3 holds nothing"
    assert len(filled(ax)) == 3 and "rank 3 holds nothing" in ax.alt_text
    ax = plot_sharding(dealt((1, 8), (2,), [Shard(0)]))
    assert title(ax).startswith("1 of 2 ranks holds all 1 × 8 numbers\nrank 1 holds")


def test_a_vector_is_a_strip():
    ax = plot_sharding(dealt((192,), (4,), [Shard(0)]))
    assert [*filled(ax)][3] == (0, 1, 144, 192)
    assert title(ax) == "Each of 4 ranks holds 48 of 192 numbers"
    assert ax.get_xlabel() == "number" and not ax.get_yticks().size
    assert ax.figure.get_figheight() < 2.5


def test_what_is_replicated_is_called_not_sharded():
    ax = plot_sharding(dealt((12, 16), (4,), [Replicate()]))
    said = "Nothing is sharded: each of 4 ranks holds all 12 × 16 numbers"
    assert title(ax) == said
    assert filled(ax) == {(0, 12, 0, 16): colors(0, 1, 2, 3)}


@pytest.mark.parametrize(
    ("placements", "first", "second"),
    [
        (
            [Partial(), Partial()],
            "all 6 × 4 numbers",
            "Partial(sum): the tensor is the",
        ),
        ([Shard(0), Partial("avg")], "6 of 12 rows", "Partial(avg): the tensor is the"),
    ],
)
def test_what_is_partial_is_said_to_be(placements, first, second):
    local = torch.ones(6, 4)
    parts = each((2, 2), None, lambda m: DTensor.from_local(local, m, placements))
    head, tail = title(plot_sharding(parts)).split("\n")
    assert head == f"Each of 4 ranks holds a partial result of {first}"
    word = "mean" if "avg" in second else "sum"
    assert tail == f"{second} {word} of these"


def test_a_single_number_is_drawn_too():
    parts = each(
        (2,), None, lambda m: DTensor.from_local(torch.tensor(2.0), m, [Partial()])
    )
    assert title(plot_sharding(parts)).startswith("Each of 2 ranks holds a partial")


def test_of_more_dimensions_those_that_are_sharded_are_drawn():
    ax = plot_sharding(dealt((64, 3, 3, 3), (4,), [Shard(0)]))
    assert title(ax).split("\n") == [
        "Each of 4 ranks holds 16 of 64 indices of dimension 0",
        "drawn: dimensions 0 and 1 of i64[64, 3, 3, 3]",
    ]
    assert texts(ax)[1] == "rank 0\n16 × 3 × 3 × 3"
    ax = plot_sharding(dealt((2, 3, 8), (2,), [Shard(2)]))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("dimension 0", "dimension 2")


def test_ranks_outside_of_the_mesh_hold_nothing():
    def half(rank):
        with fake_ranks(4, rank=rank):
            mesh = dist.device_mesh.DeviceMesh("cpu", [0, 1])
            return part_of(distribute(torch.ones(4, 2), mesh, [Shard(0)]))

    ax = plot_sharding([half(rank) for rank in range(4)])
    assert title(ax) == "2 of 4 ranks hold 2 of 4 rows\nranks 2, 3 hold nothing"


def test_some_ranks_leave_a_part_grey():
    parts = dealt((12, 4), (4,), [Shard(0)])
    ax = plot_sharding({1: parts[1], 3: parts[3]})
    assert title(ax).endswith("of 12 rows\ngrey: held by none of these ranks")
    assert to_hex(ax.get_facecolor()) == figure.GREY
    assert texts(ax)[1:] == ["rank 1\n3 × 4", "rank 3\n3 × 4"]


def test_labels_are_as_long_as_there_is_room():
    parts = dealt((160, 4), (16,), [Shard(0)])
    assert texts(plot_sharding(parts))[1] == "rank 0: 10 × 4"
    parts = dealt((160,), (16,), [Shard(0)])
    assert texts(plot_sharding(parts))[1:] == [str(rank) for rank in range(16)]
    assert len(texts(plot_sharding(dealt((640,), (64,), [Shard(0)])))) == 1


def test_the_figure_says_the_same_in_words():
    ax = plot_sharding(dealt((4, 2), (2,), [Shard(0)]))
    assert ax.alt_text == (
        "Each of 2 ranks holds 2 of 4 rows. rank 0 holds rows 0 to 1; rank 1 holds"
        " rows 2 to 3. measured: i64[4, 2], Shard(0) over 2."
    )


def test_the_figure_draws_on_the_given_axes():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(9, 3))
    assert plot_sharding(dealt((4, 2), (2,), [Shard(0)]), ax=ax) is ax
    assert [*ax.figure.get_size_inches()] == [9, 3]


def test_what_is_no_part_of_one_tensor_is_refused():
    rows, columns = (dealt((4, 2), (2,), [Shard(dim)]) for dim in (0, 1))
    other = dealt((6, 2), (2,), [Shard(0)])
    longer = dataclasses.replace(rows[1], local=torch.ones(3, 2))
    cubes = dealt((2, 2, 2), (2, 2, 2), [Shard(0), Shard(1), Shard(2)])
    state = [{"weight": part} for part in rows]
    for given, options, words in (
        ([rows[0], None], {}, "rank 1 holds NoneType, expected its part of the tensor"),
        ([[0, 1], rows[0]], {}, "rank 0 holds list, expected its part"),
        ([rows[0], columns[1]], {}, "expected parts of one tensor"),
        ([rows[0], other[1]], {}, "rank 1 holds a part of i64[6, 2]"),
        ([rows[0], longer], {}, "by Shard(0) over 2 it should be [2, 2] of [4, 2]"),
        (cubes, {}, "it is sharded along dimensions 0, 1 and 2"),
        ([dealt((1, 2), (2,), [Shard(0)])[1]], {}, "of i64[1, 2] no rank holds a part"),
        (rows, {"num_samples": 9}, "num_samples is for lists of samples"),
        (state, {}, "rank 0 holds a dict with parts of DTensors: choose one"),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            plot_sharding(given, **options)
