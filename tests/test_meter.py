"""The meter of a launch: what ranks sent, in messages, bytes and rounds."""

import os
import random
import re
import socket
import sys
import time
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.launching.launcher import launch
from course_lib.plots.transfers import plot_transfers
from course_lib.system.connections import Connection, tcp_connections
from course_lib.tracing import messages, meter
from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.messages import Post, RankTraffic
from course_lib.tracing.meter import Meter
from tests.layers import ROOT

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts")
PAGE = (ROOT / "docs/collectives.md").read_text(encoding="utf-8")
NOTE = 48  # bytes of gloo's notes, three for most messages


def traffic(*posts, calls=(), carried=()):
    return RankTraffic(
        tuple(map(messages.row, posts)), calls, carried=[(end, 0) for end in carried]
    )


def send(source, target, at, size=4, tag=0, carries="f32[1]"):
    return Post("send", source, target, "0", tag, carries, size, at)


def recv(source, target, at, known=0, size=4, tag=0, carries="f32[1]"):
    return Post("recv", source, target, "0", tag, carries, size, at, 0, known)


def rounds(*ranks):
    merged = meter.join_ranks([*ranks])
    return [(m.source, m.target, m.round) for m in merged.messages]


# --- rounds, from hand-made posts


def test_ranks_that_send_at_once_send_in_one_round():
    ranks = [traffic(send(0, 1, 1), recv(1, 0, 2, 5)), traffic(send(1, 0, 3))]
    assert rounds(*ranks) == [(0, 1, 1), (1, 0, 1)]


def test_an_answer_comes_a_round_later_than_what_it_answers():
    ranks = [traffic(send(0, 1, 1)), traffic(recv(0, 1, 0, 2), send(1, 0, 3))]
    assert rounds(*ranks) == [(0, 1, 1), (1, 0, 2)]


def test_what_is_sent_before_a_message_is_known_does_not_wait_for_it():
    ranks = [traffic(send(0, 1, 1)), traffic(recv(0, 1, 0, 4), send(1, 0, 3))]
    assert rounds(*ranks) == [(0, 1, 1), (1, 0, 1)]


def test_a_rank_receives_one_message_in_a_round():
    ranks = [traffic(), *(traffic(send(r, 0, r)) for r in (1, 2, 3))]
    assert rounds(*ranks) == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]


def test_a_rank_sends_one_message_in_a_round():
    ranks = [traffic(send(0, 1, 1), send(0, 2, 2)), traffic(), traffic()]
    assert rounds(*ranks) == [(0, 1, 1), (0, 2, 2)]


def test_messages_of_other_tags_are_told_apart():
    got = traffic(recv(0, 1, 0, 9, tag=5), send(1, 2, 10))
    sent = traffic(send(0, 1, 1, tag=4), send(0, 1, 2, tag=5))
    assert rounds(sent, got, traffic())[-1] == (1, 2, 3)


def test_a_receiver_takes_messages_in_the_order_of_its_program():
    # rank 3 is far ahead of rank 1, whose message rank 0 takes first all the same
    got = traffic(recv(1, 0, 0, 20), recv(3, 0, 1, 21))
    ranks = [got, traffic(send(1, 0, 9)), traffic(), traffic(send(3, 0, 2))]
    assert rounds(*ranks) == [(3, 0, 2), (1, 0, 1)]


def test_receives_that_are_waited_for_in_another_order_have_rounds_all_the_same():
    sent = traffic(send(0, 1, 1, tag=1), send(0, 1, 2, tag=2))
    got = traffic(recv(0, 1, 3, 9, tag=1), recv(0, 1, 4, 8, tag=2))
    assert rounds(sent, got) == [(0, 1, 1), (0, 1, 2)]


STAGES = 3  # of a butterfly of eight ranks


def butterfly(started):
    """What eight ranks post of which each exchanges with those 1, 2 and 4 away.

    `started` is how late each rank begins a stage.
    """
    posts = [[] for _ in range(2**STAGES)]
    now = [0] * len(posts)
    for stage in range(STAGES):
        begun = [now[rank] + started[stage][rank] for rank in range(len(posts))]
        for rank, own in enumerate(posts):
            other = rank ^ 2**stage
            now[rank] = max(begun[rank], begun[other]) + 1
            own.append(send(rank, other, begun[rank]))
            own.append(recv(other, rank, begun[rank], now[rank]))
    return [traffic(*own) for own in posts]


def test_rounds_of_a_butterfly_are_its_stages_however_fast_its_ranks_are():
    drawn = random.Random(0)
    for _ in range(50):
        started = [[drawn.randrange(1, 90) for _ in range(8)] for _ in range(STAGES)]
        merged = meter.join_ranks(butterfly(started))
        assert (len(merged.messages), merged.rounds) == (8 * STAGES, STAGES)


def test_rounds_of_a_real_butterfly_do_not_vary():
    def exchange(rank, world_size):
        dist.init_process_group("gloo")
        numbers, other = torch.ones(4), torch.empty(4)
        for stage in range(2):
            peer = rank ^ 2**stage
            sent = dist.isend(numbers.clone(), peer)
            dist.recv(other, peer)
            sent.wait()
            numbers += other
        return numbers[0].item()

    for _ in range(3):
        results = launch(exchange, world_size=4)
        assert list(results) == [4.0] * 4 and results.meter.rounds == 2


def test_a_collective_is_a_round_of_all_its_ranks():
    calls = [
        Call("0", 1, "all_reduce", "f32[2]", True, start=s, bytes=8) for s in (1, 5)
    ]
    ranks = [traffic(send(0, 1, 9), calls=calls[:1]), traffic(calls=calls[1:])]
    merged = meter.join_ranks(ranks)
    assert [(c.rank, c.name, c.round) for c in merged.collectives] == [
        (0, "all_reduce", 1),
        (1, "all_reduce", 1),
    ]
    assert merged.rounds == merged.messages[0].round == 2


def test_bytes_are_those_of_the_sent_tensors():
    ranks = [
        traffic(send(0, 1, 1, 40), send(0, 1, 2, 2)),
        traffic(recv(0, 1, 0, 3, 99)),
    ]
    merged = meter.join_ranks(ranks)
    assert (merged.sent(0), merged.sent(1)) == (42, 0)


@pytest.mark.parametrize(
    "other", [{"size": 8, "carries": "f32[2]"}, {"carries": "i32[1]"}]
)
def test_a_message_into_another_tensor_is_told(other):
    ranks = [traffic(send(0, 1, 1)), traffic(recv(0, 1, 0, 2, **other))]
    (sentence,) = meter.join_ranks(ranks).unlike
    assert sentence.startswith(f"rank 1 received into {other['carries']} what rank 0")


def test_another_shape_with_the_same_numbers_is_no_mistake():
    ranks = [traffic(send(0, 1, 1, carries="f32[4, 1]")), traffic(recv(0, 1, 0, 2))]
    assert not meter.join_ranks(ranks).unlike


# --- what Linux counted, from hand-made connections


def ends(source, target, written, received=0):
    return Connection(("127.0.0.1", source), ("127.0.0.1", target), written, received)


def test_bytes_belong_to_the_pair_whose_connection_carried_them():
    ranks = [traffic(carried=[ends(10, 20, 7)]), traffic(carried=[ends(20, 10, 5)])]
    merged = meter.join_ranks(ranks)
    assert merged.wire == ((0, 7), (5, 0)) and merged.busiest == 7


def test_who_ends_first_has_read_what_the_other_one_can_count_no_more():
    ranks = [traffic(carried=[ends(10, 20, 0)]), traffic(carried=[ends(20, 10, 0, 9)])]
    assert meter.join_ranks(ranks).wire == ((0, 9), (0, 0))


def test_several_connections_of_a_pair_add_up():
    one, other = [ends(1, 2, 4), ends(3, 4, 5)], [ends(2, 1, 0), ends(4, 3, 0)]
    assert meter.join_ranks([traffic(carried=one), traffic(carried=other)]).left(0) == 9


def test_a_connection_to_elsewhere_is_nobodys_message():
    assert meter.join_ranks([traffic(carried=[ends(1, 2, 4)])]).wire == ((0,),)


def test_where_nobody_counts_the_messages_do():
    merged = meter.join_ranks([traffic(send(0, 1, 1, 8)), traffic()])
    assert merged.wire is None and merged.matrix == ((0, 8), (0, 0))
    assert "what collectives send is not known" in merged.source


def test_a_kernel_that_counts_nothing_is_not_believed():
    ranks = [
        traffic(send(0, 1, 1), carried=[ends(1, 2, 0)]),
        traffic(carried=[ends(2, 1, 0)]),
    ]
    assert meter.join_ranks(ranks).wire is None


# --- connections of this process


@pytest.fixture
def near_and_far():
    """Both ends of a connection in this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def counted(end):
    """What was counted at one of these ends."""
    [found] = [c for c in tcp_connections().values() if c.local == end.getsockname()]
    return found


@linux
def test_a_connection_counts_what_is_written_and_received(near_and_far):
    near, far = near_and_far
    near.sendall(b"12345")
    assert far.recv(5) == b"12345"
    one, other = counted(near), counted(far)
    assert (one.written, other.received, other.written) == (5, 5, 0)
    assert one.remote == other.local


@linux
def test_that_the_other_end_closed_is_no_byte(near_and_far):
    near, far = near_and_far
    near.sendall(b"12345")
    near.shutdown(socket.SHUT_WR)
    assert far.recv(9) == b"12345" and far.recv(9) == b""
    assert counted(far).received == 5


# --- real ranks


def ring(rank, world_size, count):
    dist.init_process_group("gloo")
    tensor = torch.arange(count, dtype=torch.float32) * (rank + 1)
    chunks = list(tensor.chunk(world_size))
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(2 * world_size - 2):
        mine, theirs = (
            chunks[(rank - step) % world_size],
            (rank - step - 1) % world_size,
        )
        work, chunk = dist.isend(mine, right), torch.empty_like(chunks[theirs])
        dist.recv(chunk, left)
        work.wait()
        if step < world_size - 1:
            chunks[theirs] += chunk
        else:
            chunks[theirs].copy_(chunk)
    dist.destroy_process_group()
    return tensor


def test_a_ring_is_counted_in_messages_bytes_and_rounds():
    results = launch(ring, 1200, world_size=4)
    tensor = results[0]
    assert torch.equal(tensor, torch.arange(1200.0) * 10)
    assert (len(results.meter.messages), results.meter.rounds) == (24, 6)
    assert {results.meter.sent(rank) / tensor.nbytes for rank in range(4)} == {1.5}
    assert {(m.target - m.source) % 4 for m in results.meter.messages} == {1}


@linux
def test_what_linux_counts_is_the_messages_and_gloos_notes():
    meter = launch(ring, 120_000, world_size=3).meter
    for rank in range(3):
        right = meter.wire[rank][(rank + 1) % 3]
        assert 0 <= right - meter.sent(rank) <= 3 * NOTE * 4
        assert meter.wire[rank][(rank + 2) % 3] <= 3 * NOTE * 4


@linux
def test_data_that_goes_round_torch_distributed_is_seen():
    def by_socket(rank, world_size, port):
        dist.init_process_group("gloo")
        if rank == 0:
            with socket.create_server(("127.0.0.1", 0)) as server:
                dist.send(torch.tensor(server.getsockname()[1]), 1)
                link, _ = server.accept()
                link.recv(5000, socket.MSG_WAITALL)
        else:
            dist.recv(address := torch.tensor(0), 0)
            link = socket.create_connection(("127.0.0.1", address.item()))
            link.sendall(bytes(5000))
        dist.barrier()
        return link.detach()  # who closes it takes the counts away

    meter = launch(by_socket, 0, world_size=2).meter
    assert meter.sent(1) == 0 and 5000 <= meter.left(1) < 6000


@linux
def test_setting_up_a_group_costs_nothing_on_the_meter():
    def quiet(rank, world_size):
        dist.init_process_group("gloo")
        dist.destroy_process_group()

    meter = launch(quiet, world_size=3).meter
    assert not any(map(any, meter.wire)) and meter.rounds == 0


def by_axes(rank, world_size):
    """Reduce along one axis of a mesh; the last rank ends after the others are gone."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("across", "inside"))
    dist.all_reduce(torch.ones(1000), group=mesh["inside"].get_group())
    while rank == 3 and len(tcp_connections()) > 1:  # the one to the store
        time.sleep(0.01)


def test_groups_of_a_mesh_count_also_where_their_connections_are_gone():
    """Without what their setting up costs, though a mesh makes its groups itself."""
    matrix = launch(by_axes, world_size=4, timeout=100).meter.matrix
    inside = matrix[0][1]
    assert inside == pytest.approx(4000, rel=0.2)
    for rank, row in enumerate(matrix):
        assert row == tuple(inside * (other == rank ^ 1) for other in range(4))


def barriers(rank, world_size):
    """Whether PyTorch's barrier is on at each group of a mesh, and afterwards."""
    make, seen = dist.distributed_c10d._new_group_with_tag, []

    def noting(*args, **kwargs):
        seen.append(os.environ.get("TORCH_DIST_INIT_BARRIER"))
        return make(*args, **kwargs)

    dist.distributed_c10d._new_group_with_tag = noting
    init_device_mesh("cpu", (2, 2))
    return [*seen, os.environ.get("TORCH_DIST_INIT_BARRIER")]


def test_a_mesh_is_there_when_its_groups_are_done_on_all_ranks():
    """Else a function that ends at once closes what another rank still connects."""
    assert list(launch(barriers, world_size=4)) == [["1"] * 4 + [None]] * 4


def test_messages_of_a_smaller_group_have_the_ranks_of_the_launch():
    def pair(rank, world_size):
        dist.init_process_group("gloo")
        group = dist.new_group([1, 2])
        if rank == 1:
            dist.send(torch.ones(3), group=group, group_dst=1)
        if rank == 2:
            dist.recv(torch.ones(3), group=group)
        dist.barrier()  # else one may leave while another still connects

    (message,) = launch(pair, world_size=3).meter.messages
    assert (message.source, message.target, message.bytes) == (1, 2, 12)


def test_a_receive_from_any_rank_knows_whom_it_answers():
    def serve(rank, world_size):
        dist.init_process_group("gloo")
        if rank == 0:
            for _ in range(2):
                dist.send(torch.ones(1), dist.recv(torch.ones(1)))
        else:
            dist.send(torch.ones(1), 0)
            dist.recv(torch.ones(1), 0)

    meter = launch(serve, world_size=3).meter
    asked = {m.source: m.round for m in meter.messages if m.target == 0}
    assert all(asked[m.target] < m.round for m in meter.messages if m.source == 0)


def test_buckets_of_ddp_are_collectives_of_the_meter():
    def step(rank, world_size):
        dist.init_process_group("gloo")
        layers = [torch.nn.Linear(256, 256, bias=False) for _ in range(3)]
        model = DDP(torch.nn.Sequential(*layers), bucket_cap_mb=0.25)
        for _ in range(2):  # the first step sends all in one bucket
            model(torch.ones(2, 256)).sum().backward()

    meter = launch(step, world_size=2).meter
    sizes = [
        c.bytes for c in meter.collectives if c.rank == 0 and c.name == "all_reduce"
    ]
    assert sizes == [3 * 2**18, *[2**18] * 3]


def test_a_launch_warns_of_a_message_into_another_type():
    def mixed(rank, world_size):
        dist.init_process_group("gloo")
        if rank == 0:
            dist.send(torch.arange(4, dtype=torch.int32), 1)
        else:
            dist.recv(torch.zeros(4), 0)

    with pytest.warns(
        UserWarning, match=r"into f32\[4\] what rank 0 sent as i32\[4\]"
    ) as told:
        launch(mixed, world_size=2)
    assert told[0].filename == __file__


def test_messages_beyond_the_limit_are_counted(monkeypatch):
    def many(rank, world_size):
        messages.LIMIT = 3
        dist.init_process_group("gloo")
        for _ in range(5):
            if rank == 0:
                dist.send(torch.ones(2), 1)
            else:
                dist.recv(torch.ones(2), 0)

    meter = launch(many, world_size=2).meter
    assert len(meter.messages) == 3 and meter.sent(0) == 40
    assert repr(meter).startswith("<Meter: 2 ranks, 5 messages")


# --- how it shows itself


def test_the_meter_is_a_table_and_a_matrix():
    ranks = [traffic(send(0, 1, 1, 2000)), traffic(recv(0, 1, 0, 2, 2000))]
    text = meter.join_ranks(ranks)._repr_html_()
    assert "2 ranks, 1 message, 0 collectives, 1 round, 2 kB" in text
    assert "to 1" in text and "from 0" in text and text.count("2 kB") == 4


def test_a_large_matrix_is_left_out():
    assert "from 0" not in Meter(17)._repr_html_()


def test_nothing_sent_is_shown_as_such():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(launch(lambda rank, world_size: os.getpid()).meter) == (
            "<Meter: 2 ranks, 0 messages, 0 collectives, 0 rounds, 0 B>"
        )


def test_its_matrix_can_be_drawn():
    axes = plot_transfers(meter.join_ranks([traffic(send(0, 1, 1, 2000)), traffic()]))
    assert "2 kB sent, all from rank 0" in axes.get_title("left")
    assert "2 kB" in [text.get_text() for text in axes.texts]


# --- what gloo does, as docs/collectives.md says it

CALLS = {
    "all_reduce": lambda x: dist.all_reduce(x),
    "broadcast": lambda x: dist.broadcast(x, 0),
    "reduce": lambda x: dist.reduce(x, 0),
    "all_gather": lambda x: dist.all_gather(list(torch.empty_like(x)), x[0]),
    "reduce_scatter": lambda x: dist.reduce_scatter(x[0].clone(), list(x)),
    "all_to_all": lambda x: dist.all_to_all_single(torch.empty_like(x), x),
}


def told(call):
    """The tensors sent by the busiest rank, from the page's row of this call."""
    row = re.search(rf"^\| `{call}` \|.*\| (?:about )?([\d.]+) [^|]*\|$", PAGE, re.M)
    return float(row[1])


@linux
@pytest.mark.parametrize("name", CALLS)
def test_gloo_sends_what_the_page_says(name):
    def once(rank, world_size):
        dist.init_process_group("gloo")
        CALLS[name](torch.ones(8, 2**15))
        dist.destroy_process_group()

    busiest = launch(once, world_size=8).meter.busiest / 2**20
    assert busiest == pytest.approx(told(name), abs=0.04)
