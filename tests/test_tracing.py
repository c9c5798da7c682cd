"""Traces of virtual GPUs: regions, copies, memory, and blocks that end badly."""

import pickle

import pytest
import torch
from torch import nn

from course_lib.accelerators.virtual import machine
from course_lib.errors import UsageError
from course_lib.tracing.device_trace import trace


def names(result, rank=None, kind="compute"):
    """Names of the events, each once, in the order of their first start."""
    return list(dict.fromkeys(event.name for event in result.select(rank, kind)))


def step(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()


@pytest.fixture
def layer(devs):
    return nn.Linear(4, 2).to(devs[0])


def test_a_step_is_a_forward_a_backward_and_an_optimizer_step(devs, layer):
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    batch = torch.ones(3, 4, device=devs[0])
    with trace() as result:
        step(layer, optimizer, batch)
    found = names(result, "vgpu:0")
    assert [name for name in found if name != "other"] == [
        "forward",
        "backward",
        "optimizer",
    ]
    assert result.ranks == ("vgpu:0",)
    what, _, rates = result.source.partition("; ")
    assert what == "modelled: 3 × A100, NVLink3"
    assert rates == "reached rates, median error 12 %"


def test_regions_are_numbered_where_a_device_has_several(devs, layer):
    other = nn.Linear(2, 2).to(devs[1])
    batch = torch.ones(3, 4, device=devs[0])
    with torch.no_grad(), trace() as result:
        for _ in range(3):
            hidden = layer(batch)
        other(hidden.to(devs[1]))
    assert names(result, "vgpu:0") == ["forward 0", "forward 1", "forward 2"]
    assert names(result, "vgpu:1") == ["forward"]


def test_a_region_is_the_outermost_call_of_a_module(devs):
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
    model.to(devs[0])
    with trace() as result:
        model(torch.ones(3, 4, device=devs[0]))
    assert [name for name in names(result) if name != "other"] == ["forward"]


def test_what_is_in_no_region_is_other(devs):
    with trace() as result:
        torch.ones(3, device=devs[2]).exp()
    assert names(result, "vgpu:2") == ["other"]


def test_operators_without_a_gap_are_one_event(virtual):
    (device,) = virtual(1, launch=0)
    x = torch.ones(1000, device=device)
    with trace() as result:
        x.exp().log().sqrt()
    assert len(result) == 1


def test_operators_with_a_gap_are_several_events(virtual):
    (device,) = virtual(1, launch=1)
    x = torch.ones(1000, device=device)
    with trace() as result:
        x.exp().log().sqrt()
    assert len(result) == 3


def test_a_device_does_one_thing_at_a_time_or_hands_on_what_comes(devs):
    model = nn.DataParallel(nn.Linear(4, 4).to(devs[0]), device_ids=devs)
    with trace() as result:
        model(torch.ones(6, 4)).sum().backward()
    for rank in result.ranks:
        own = sorted(result.select(rank), key=lambda event: event.start)
        assert len(own) > 3
        for a, b in zip(own, own[1:]):
            hands_on = {a.name.split()[0], b.name.split()[0]} <= {"broadcast", "reduce"}
            assert a.stop <= b.start + 1e-12 or hands_on


def test_a_trace_begins_at_zero_whatever_ran_before(devs):
    x = torch.ones(1000, device=devs[0])
    for _ in range(50):
        x.add_(1)
    with trace() as result:
        x.add_(1)
    assert 0 <= result.events[0].start <= machine.clock.launch * 1.01


# --- copies


def test_a_copy_stands_at_both_ends_and_its_bytes_count_once(devs):
    x = torch.ones(1000, device=devs[0])
    with trace() as result:
        x.to(devs[1])
    source, target = sorted(result.select(kind="communicate"), key=lambda e: e.rank)
    assert (source.name, source.bytes) == ("copy to vgpu:1", 4000)
    assert (target.name, target.bytes) == ("copy from vgpu:0", 0)
    assert (source.start, source.stop) == (target.start, target.stop)
    assert (result.bytes("vgpu:0"), result.bytes("vgpu:1")) == (4000, 0)


def test_a_copy_with_the_host_has_its_bytes_at_the_device(devs):
    with trace() as result:
        torch.ones(10).to(devs[1]).cpu()
    assert names(result, "vgpu:1", "communicate") == ["copy from cpu", "copy to cpu"]
    ends = [(copy.source, copy.target, copy.bytes) for copy in result.transfers]
    assert ends == [("cpu", "vgpu:1", 40), ("vgpu:1", "cpu", 40)]
    assert result.bytes("vgpu:1") == 80


def test_the_gradient_travels_back_over_the_copy(devs):
    x = torch.ones(1000, device=devs[0], requires_grad=True)
    with trace() as result:
        x.to(devs[1]).sum().backward()
    ends = [(copy.source, copy.target, copy.bytes) for copy in result.transfers]
    assert ends == [("vgpu:0", "vgpu:1", 4000), ("vgpu:1", "vgpu:0", 4000)]


def test_a_half_of_the_type_is_half_of_the_bytes(devs):
    x = torch.ones(1000, dtype=torch.bfloat16, device=devs[0])
    with trace() as result:
        x.to(devs[1])
    assert [copy.bytes for copy in result.transfers] == [2000]


RINGS = {"broadcast": [(0, 1), (1, 2)], "reduce": [(1, 2), (2, 0)]}
STARS = {"broadcast": [(0, 1), (0, 2)], "reduce": [(1, 0), (2, 0)]}


@pytest.mark.parametrize(("nccl", "ways"), [(True, RINGS), (False, STARS)])
def test_data_parallel_shows_its_copies_by_their_names(virtual, nccl, ways):
    devs = virtual(3, nccl=nccl)
    model = nn.Linear(100, 10)
    size = 4 * (100 * 10 + 10)
    wrapped = nn.DataParallel(model.to(devs[0]), device_ids=devs)
    batch = torch.ones(30, 100, device=devs[0])
    with trace() as result:
        wrapped(batch).sum().backward()
    bytes = {}
    for copy in result.transfers:
        key = copy.name, copy.source, copy.target
        bytes[key] = bytes.get(key, 0) + copy.bytes
    expected = {
        (name, *(f"vgpu:{end}" for end in way)): size
        for name in ways
        for way in ways[name]
    }
    for other in ("vgpu:1", "vgpu:2"):
        expected["scatter", "vgpu:0", other] = 10 * 100 * 4
        expected["gather", other, "vgpu:0"] = 10 * 10 * 4
        # the gradient of gather
        expected["scatter", "vgpu:0", other] += 10 * 10 * 4
    assert bytes == expected


def test_a_move_within_a_device_is_no_copy(devs):
    x = torch.ones(10, device=devs[0])
    with trace() as result:
        x.to(devs[0]), x.double(), x.clone(), x.to(devs[0], copy=True)
    assert result.transfers == () and result.time("vgpu:0", "communicate") == 0


# --- a trace itself


def test_a_trace_is_empty_until_its_block_has_ended(devs):
    with trace() as result:
        torch.ones(3, device=devs[0])
        assert len(result) == 0 and "nothing yet" in result.source
    assert len(result) > 0


def test_a_trace_travels_between_processes(devs):
    with trace() as result:
        torch.ones(3, device=devs[0]).to(devs[1])
    back = pickle.loads(pickle.dumps(result))
    assert back == result and len(back.transfers) == 1


def test_a_trace_in_a_trace_is_refused_and_the_outer_goes_on(devs):
    with trace() as result:
        with pytest.raises(UsageError, match="a trace runs already"), trace():
            pass
        torch.ones(3, device=devs[0])
    assert len(result) == 1


def test_a_trace_without_devices_says_what_to_call(virtual, monkeypatch):
    monkeypatch.setattr(machine, "count", 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"call cl\.devices\(n\) first"), trace():
        pass


def test_without_devices_there_is_nothing_to_wait_for(virtual, monkeypatch):
    monkeypatch.setattr(machine, "count", 0)
    torch.vgpu.synchronize()  # as the profiler of torch 2.11 does at its end
    with pytest.raises(RuntimeError, match="there are 0 virtual GPUs"):
        torch.vgpu.synchronize(0)


def test_devices_are_not_chosen_inside_of_a_trace(devs, virtual):
    with trace() as result:
        with pytest.raises(UsageError, match="inside of `with trace"):
            virtual(2)
        torch.ones(3, device=devs[2])
    assert result.ranks == ("vgpu:2",)


ERRORS = {
    "forward": lambda d: nn.Linear(3, 2).to(d)(torch.ones(2, 9, device=d)),
    "memory": lambda d: torch.ones(10**12, device=d),
    "mixture": lambda d: torch.ones(3, device=d) + torch.ones(3),
    "interrupt": lambda d: (_ for _ in ()).throw(KeyboardInterrupt),
}


@pytest.mark.parametrize("fails", ERRORS.values(), ids=ERRORS)
def test_a_trace_around_an_error_is_filled_and_the_next_one_works(devs, layer, fails):
    batch = torch.ones(2, 4, device=devs[0])
    with pytest.raises((RuntimeError, KeyboardInterrupt)), trace() as result:
        layer(batch)
        fails(devs[0])
    assert "forward" in " ".join(names(result))
    with trace() as again:
        layer(batch).sum().backward()
    assert [name for name in names(again) if name != "other"] == ["forward", "backward"]


def test_after_an_error_in_a_backward_the_next_regions_are_right(devs, layer):
    batch = torch.ones(2, 4, device=devs[0])
    hook = layer.weight.register_hook(lambda slope: slope + torch.ones(1).exp())
    with trace() as result:
        with pytest.raises(RuntimeError, match="same device"):
            layer(batch).sum().backward()
        hook.remove()
        layer(batch).sum().backward()
        torch.ones(3, device=devs[0])
    found = [name for name in names(result) if name != "other"]
    assert found == ["forward 0", "backward 0", "forward 1", "backward 1"]
    assert result.events[-1].name == "other"


def test_after_an_error_in_an_optimizer_step_no_region_stays_open(devs, layer):
    class Fails(torch.optim.SGD):
        def step(self):
            raise ValueError("stop here")

    layer(torch.ones(2, 4, device=devs[0])).sum().backward()
    with pytest.raises(ValueError, match="stop here"):
        Fails(layer.parameters(), 0.1).step()
    with trace() as result:
        torch.ones(3, device=devs[0])
    assert names(result) == ["other"]


def test_outside_of_a_trace_nothing_is_noted(devs, layer):
    with trace() as result:
        pass
    layer(torch.ones(2, 4, device=devs[0]))
    assert len(result) == 0 and machine.clock.launches is None
    assert machine.places[0].account.history is None
