"""Row 11, and the rows of the table in launches on two nodes."""

import os
import signal

import pytest

from tests.faults.cells import (
    PRELUDE,
    failed,
    hangs,
    launches,
    opened,
    placed,
    value,
)
from tests.kernels import error
from tests.leftovers import becomes, below, lives

AGENTS = """import psutil

def agents():
    family = psutil.Process(os.getppid()).children()
    return [one for one in family if one.name() == "pt_elastic"]
"""


@pytest.mark.fault(1, "two nodes: one rank raises", nodes=2)
def test_a_rank_that_raises_is_named_with_its_node(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        now()
        missing + 1
    dist.all_reduce(torch.ones(3))

cl.launch(train, world_size=3, nodes=2)"""
    text = failed(kernel, cell)
    assert "rank 1 of 3 (local rank 1 of node0) raised NameError" in text
    assert "-->   5          missing + 1" in text
    line = "line 6, in train: dist.all_reduce(torch.ones(3))"
    assert placed(text, {0, 2}, line), text
    assert launches(kernel)


@pytest.mark.fault(2, "two nodes: one rank is killed", nodes=2)
def test_a_rank_that_is_killed_is_named_with_its_node(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        now()
        os.kill(os.getpid(), 9)
    dist.all_reduce(torch.ones(3))

cl.launch(train, nodes=2)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 (local rank 0 of node1) was killed by SIGKILL" in text
    assert placed(text, {0}, "line 6, in train: dist.all_reduce(torch.ones(3))"), text


@pytest.mark.fault(2, "two nodes: SIGKILL of the agent of all", nodes=2)
def test_the_agent_of_all_nodes_takes_them_with_it(kernel):
    cell = """def train(rank, world_size):
    if rank == 1:
        now()
        os.kill(os.getppid(), 9)
    time.sleep(1000)

cl.launch(train, nodes=2)"""
    assert "the launch's agent ended, and the ranks with it" in failed(kernel, cell)
    assert launches(kernel)


@pytest.mark.fault(3, "two nodes: another order of collectives", nodes=2)
def test_a_deadlock_between_nodes_is_named(kernel):
    cell = """def train(rank, world_size):
    dist.init_process_group("gloo")
    now()
    if rank == 0:
        dist.barrier()
    dist.all_reduce(torch.ones(3))

cl.launch(train, nodes=2)"""
    text = failed(kernel, cell)
    assert "LaunchStalled: train on 2 ranks: stood still" in text
    assert "Collective 1 differs: rank 0 calls barrier" in text
    assert "rank 1 waits in all_reduce: cell In[" in text


@pytest.mark.fault(4, "two nodes: interrupted", nodes=2)
def test_an_interrupt_stops_the_ranks_of_all_nodes(kernel):
    message_id = hangs(kernel, options=", nodes=2")
    kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert "LaunchInterrupted: train on 2 ranks: interrupted" in text
    assert "ranks 0, 1 were in cell In[" in text


@pytest.mark.fault(4, "two nodes: interrupted while they join", nodes=2)
def test_an_interrupt_before_the_nodes_have_joined_is_heard(kernel):
    message_id = kernel.send("cl.launch(rank_of, world_size=2, nodes=2)")
    kernel.until_shown(message_id, "2 ranks of 2 nodes")
    kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert "rank_of on 2 ranks: interrupted" in text
    assert launches(kernel)


@pytest.mark.fault(4, "two nodes: kernel killed by SIGKILL", nodes=2)
def test_a_killed_kernel_takes_its_nodes_with_it():
    kernel = opened()
    try:
        kernel.run(PRELUDE)
        hangs(kernel, options=", nodes=2")
        processes = below(kernel.pid)
        # the server, an agent for all, one for each node, for each rank two
        assert len(processes) >= 8
        os.kill(kernel.pid, signal.SIGKILL)
        assert becomes(lambda: not any(map(lives, processes)))
    finally:
        kernel.close()


@pytest.mark.fault(5, "two launches on two nodes at once", nodes=2)
def test_launches_on_two_nodes_do_not_meet(kernel):
    cell = """from concurrent.futures import ThreadPoolExecutor

def total(rank, world_size, x):
    dist.init_process_group("gloo")
    y = torch.tensor([float(x)])
    dist.all_reduce(y)
    return y.item()

with ThreadPoolExecutor() as pool:
    both = [pool.submit(cl.launch, total, x, nodes=2) for x in (3, 5)]
[list(one.result()) for one in both]"""
    assert "[[6.0, 6.0], [10.0, 10.0]]" in value(kernel, cell)


@pytest.mark.fault(11, "the agent of a node is killed", nodes=2)
def test_a_node_whose_agent_is_killed_is_named(kernel):
    cell = f"""{AGENTS}
def train(rank, world_size):
    if rank == 0:
        now()
        agents()[1].kill()
    time.sleep(1000)

cl.launch(train, nodes=2)"""
    text = failed(kernel, cell)
    assert "node1 is lost: its agent of torchrun was killed by SIGKILL" in text
    assert launches(kernel)


@pytest.mark.fault(11, "nodes do not join in time", nodes=2)
def test_nodes_that_do_not_join_are_named(kernel):
    # torchrun looks once a second whether all have come
    cell = """from course_lib.launching import client
client.NodesHost.patience = 0.3
now()
cl.launch(rank_of, nodes=2)"""
    text = failed(kernel, cell)
    kernel.run("client.NodesHost.patience = 60.0")
    assert "never joined: no rank began within 0.3 s" in text
    assert launches(kernel)
