"""Launches on several nodes: torchrun starts the ranks, each node has its own name."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from course_lib.errors import UsageError
from course_lib.launching import client, nodes, spec
from course_lib.launching.failures import RankExit, explain
from course_lib.launching.launcher import launch
from course_lib.launching.watchdog.stall import RankState
from course_lib.system import linux

pytestmark = pytest.mark.skipif(not linux.available(), reason="needs Linux")
NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def told(rank, world_size):
    """What a rank knows of itself, and what it gets when it meets the others twice."""
    sums = []
    for _ in range(2):  # of a store that lives on
        dist.init_process_group("gloo")
        x = torch.tensor([float(rank)])
        dist.all_reduce(x)
        dist.destroy_process_group()
        sums.append(x.item())
    print("sum", sums[-1])
    places = [int(os.environ[name]) for name in NAMES]
    hosts = [socket.gethostname(), os.environ["MASTER_ADDR"]]
    with contextlib.suppress(OSError):  # where nodes have no names
        hosts.append(socket.gethostbyname("node1"))
    return rank, places, sums, hosts


def has_names():
    """True where a process may have a host name of its own."""
    return nodes._works("node0", {"node0": "127.0.0.10"})


CHECK = "from tests import test_nodes; print(test_nodes.has_names())"


@pytest.fixture(scope="module")
def named():
    """Skips where namespaces are not allowed; a process without threads tries it."""
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True)
    if done.stdout != "True\n":
        pytest.skip("this system allows no namespaces")


@pytest.fixture(scope="module")
def uneven(named):
    return launch(told, world_size=3, nodes=2, trace=True)


def test_ranks_are_dealt_to_nodes_in_order_and_the_first_gets_one_more(uneven):
    assert [rank for rank, *_ in uneven] == [0, 1, 2]
    assert [places for _, places, *_ in uneven] == [
        [0, 0, 0, 3, 2],
        [1, 1, 0, 3, 2],
        [2, 0, 1, 3, 1],
    ]


def test_each_node_has_a_host_name_and_all_know_where_the_others_are(uneven):
    hosts = [hosts for *_, hosts in uneven]
    assert [host for host, *_ in hosts] == ["node0", "node0", "node1"]
    assert [rest for _, *rest in hosts] == [["node0", "127.0.0.11"]] * 3
    assert not socket.gethostname().startswith("node")


def test_ranks_of_different_nodes_meet_and_meet_again(uneven):
    assert [sums for _, _, sums, _ in uneven] == [[3.0, 3.0]] * 3


def test_output_trace_and_meter_are_those_of_any_launch(uneven):
    assert uneven.output == ["sum 3.0\n"] * 3
    assert [one.rank for one in uneven.meter.collectives] == [0, 1, 2] * 2
    calls = [e for e in uneven.trace.events if "all_reduce" in e.name]
    assert {event.rank for event in calls} == {0, 1, 2}
    assert uneven.title.startswith("3 ranks of 2 nodes on the CPU, one thread each, ")


def test_what_each_agent_of_torchrun_wrote_is_kept(uneven):
    assert len(uneven.agents) == 2
    assert "global_ranks=[0, 1]" in uneven.agents[0]
    assert "global_ranks=[2]" in uneven.agents[1]
    assert all("Done waiting for other agents" in text for text in uneven.agents)


@pytest.mark.fault(11, "no namespaces are allowed", nodes=2)
def test_without_namespaces_all_nodes_have_one_host_name_and_the_title_says_so(
    monkeypatch, nothing_left
):
    monkeypatch.setattr(client.NodesHost, "named", False)
    results = launch(told, nodes=2)
    assert [places for _, places, *_ in results] == [[0, 0, 0, 2, 1], [1, 0, 1, 2, 1]]
    assert [hosts for *_, hosts in results] == [
        [socket.gethostname(), "127.0.0.10"]
    ] * 2
    assert nodes.HOW in results.title


def test_a_rank_has_the_variables_of_the_notebook_and_of_torchrun_alone(monkeypatch):
    monkeypatch.setenv("MINE", "é=1")
    before = {**os.environ}
    (given,) = launch(lambda rank, world_size: {**os.environ}, world_size=1, nodes=1)
    added = given.keys() - before.keys()
    assert given["MINE"] == "é=1" and "LOGLEVEL" not in added
    assert {"TORCHELASTIC_RUN_ID", "ROLE_RANK", *NAMES} <= added


def test_a_launch_on_one_node_has_no_agents_of_torchrun():
    assert launch(lambda rank, world_size: "GROUP_RANK" in os.environ)[0] is False


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nodes": 0}, "nodes=0: give at least 1 node"),
        ({"nodes": 2.0}, "nodes=2.0 is a float: give a whole number of nodes"),
        ({"nodes": True}, "nodes=True is a bool"),
        ({"nodes": 3, "world_size": 2}, "nodes=3 for 2 ranks: .* world_size=3 or more"),
    ],
)
def test_nodes_that_cannot_be_are_refused(given, text):
    with pytest.raises(UsageError, match=text):
        launch(told, **given)


def test_elsewhere_than_on_linux_the_way_is_torchrun(monkeypatch):
    monkeypatch.setattr(linux, "available", lambda: False)
    with pytest.raises(UsageError, match="start torchrun once for each node"):
        launch(told, nodes=2)


@pytest.mark.parametrize(
    ("gpus", "count", "size"), [(0, 1, 2), (0, 2, 2), (0, 5, 5), (4, 2, 4), (1, 2, 2)]
)
def test_there_is_a_rank_for_each_gpu_two_without_and_one_for_each_node(
    monkeypatch, gpus, count, size
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    request = spec.check(told, args=(), world_size=None, nodes=count)
    assert (request.world_size, request.nodes) == (size, count)


@pytest.mark.parametrize(
    ("visible", "own"),
    [("", ["0,1", "2"]), ("3,5,GPU-7", ["3,5", "GPU-7"])],
)
def test_each_node_sees_gpus_of_its_own(monkeypatch, visible, own):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    of_nodes = client.gpus_of_nodes([2, 1])
    assert [node["CUDA_VISIBLE_DEVICES"] for node in of_nodes] == own


@pytest.mark.parametrize(("gpus", "seen"), [(0, {}), (2, {"CUDA_VISIBLE_DEVICES": ""})])
def test_where_gpus_do_not_suffice_no_node_has_one(monkeypatch, gpus, seen):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert client.gpus_of_nodes([2, 1]) == [seen, seen]


def test_names_of_nodes_sort_as_their_numbers_do():
    assert nodes.host_names(2) == ["node0", "node1"]
    many = nodes.host_names(12)
    assert many[1] == "node01" and sorted(many) == many


def test_an_error_names_the_node_of_its_rank():
    end = RankExit(3, 7, at=0.0, place="local rank 1 of node1")
    states = [RankState(rank, "returned") for rank in range(4)]
    text = str(explain([end], states, name="train"))
    assert text.startswith("rank 3 of 4 (local rank 1 of node1) ended with exit code 7")
