"""Row 10: messages to nobody, to oneself, into another tensor; a ring that breaks."""

import pytest

from tests.fault_table import case
from tests.faults.cells import failed, fault, launches
from tests.kernels import shown

NOBODY = "there is no rank {} to send to or receive from: this group has ranks 0 to 1"
CONNECTED = "gloo does not connect a rank with itself: copy the tensor instead"


@pytest.mark.parametrize(
    "body, message",
    [
        case(10, "to a rank that is not there", "dist.send(x, 2)", NOBODY.format(2)),
        case(10, "to rank -1", "dist.isend(x, rank - 2)", NOBODY.format(-1)),
        case(10, "from a rank that is not there", "dist.recv(x, 5)", NOBODY.format(5)),
        case(10, "send to oneself", "dist.send(x, rank)", "Invalid destination rank"),
        case(10, "isend to oneself", "dist.isend(x, rank)", CONNECTED),
    ],
)
def test_a_message_to_no_other_rank_is_refused(kernel, body, message):
    text = fault(kernel, f"x = torch.ones(2); {body}")
    assert message in text and "-->   5" in text


@pytest.mark.fault(10, "into a smaller tensor")
def test_a_message_that_does_not_fit_names_shapes_and_types(kernel):
    text = failed(kernel, MESSAGE.format("torch.ones(2, dtype=torch.int32)"))
    assert "rank 1 of 2 was killed by SIGABRT" in text
    assert "do all ranks pass tensors of the same shape and type?" in text


MESSAGE = """def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        now()
        dist.recv({}, 0)

cl.launch(train, world_size=2)"""


@pytest.mark.parametrize(
    "tensor, short",
    [
        case(10, "into a larger tensor", "torch.ones(6)", "f32[6]"),
        case(10, "into another type", "torch.ones(4, dtype=torch.int32)", "i32[4]"),
    ],
)
def test_what_arrives_in_another_tensor_is_warned_of(kernel, tensor, short):
    text = shown(kernel.run(MESSAGE.format(tensor)))
    assert f"rank 1 received into {short} what rank 0 sent as f32[4]" in text
    assert launches(kernel)


@pytest.mark.fault(10, "a rank dies in mid-ring")
def test_a_rank_that_dies_in_a_ring_is_named(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    x = torch.ones(100_000)
    for step in range(6):
        if (rank, step) == (2, 3):
            now()
            os.kill(os.getpid(), 9)
        sent = dist.isend(x, (rank + 1) % world_size)
        dist.recv(x.clone(), (rank - 1) % world_size)
        sent.wait()

cl.launch(train, world_size=4)"""
    text = failed(kernel, cell)
    assert "rank 2 of 4 was killed by SIGKILL" in text and "before train" in text


@pytest.mark.fault(10, "a worker never asks the server again")
def test_a_server_that_waits_for_a_worker_that_left_says_so(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    x = torch.ones(3)
    for step in range(4 if rank == 0 else 3 - rank):
        if rank == 0:
            dist.send(x, dist.recv(x))
        else:
            dist.send(x, 0)
            dist.recv(x, 0)
    now()

cl.launch(train, world_size=3)"""
    text = failed(kernel, cell)
    assert "rank 0 waits in recv" in text and "dist.send(x, dist.recv(x))" in text
    assert "ranks 1, 2 have returned, and rank 0 waits for a message" in text


@pytest.mark.fault(10, "a ring with one link the wrong way")
def test_a_ring_whose_messages_do_not_meet_says_who_waits_for_whom(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    now()
    way = -1 if rank == 2 else 1
    sent = dist.isend(torch.ones(2), (rank + way) % world_size)
    dist.recv(torch.ones(2), (rank - way) % world_size)
    sent.wait()

cl.launch(train, world_size=4)"""
    text = failed(kernel, cell)
    assert "rank 1 waits in wait() of send: " in text
    assert "ranks 2, 3 wait in recv: " in text
    assert "each send needs a recv on the other side" in text
