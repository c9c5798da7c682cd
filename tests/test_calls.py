"""PyTorch's flight recorder tells which collectives a rank has called."""

import json

from course_lib.launching.launcher import launch
from course_lib.tracing.flight_recorder import entries, newest, read_calls

# what gloo's recorder of torch 2.13 held on one of three ranks; keys that nobody reads
# are left out. A group was destroyed and made anew; `monitored_barrier`, the first call
# of the second one, took its numbers 1 and 2
MADE_ANEW = """[
{"record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
 "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "is_p2p": false,
 "profiling_name": "gloo:all_reduce", "time_created_ns": 1795446556982853186,
 "input_sizes": [[4]], "input_dtypes": ["Float"], "retired": true,
 "timeout_ms": 1800000},
{"record_id": 1, "pg_id": 1, "process_group": ["0", "default_pg"],
 "collective_seq_id": 3, "p2p_seq_id": 0, "op_id": 3, "is_p2p": false,
 "profiling_name": "gloo:broadcast", "time_created_ns": 1795446556997012344,
 "input_sizes": [[4]], "input_dtypes": ["Float"], "retired": true,
 "timeout_ms": 1800000},
{"record_id": 2, "pg_id": 1, "process_group": ["0", "default_pg"],
 "collective_seq_id": 4, "p2p_seq_id": 0, "op_id": 4, "is_p2p": false,
 "profiling_name": "gloo:barrier", "time_created_ns": 1795446556997223344,
 "input_sizes": [], "input_dtypes": [], "retired": false, "timeout_ms": 1800000}
]"""


def entry(number, name="gloo:all_reduce", **other):
    """As gloo's recorder of torch 2.13 writes it."""
    return {
        "record_id": number,
        "pg_id": 0,
        "collective_seq_id": number,
        "process_group": ["0", "default_pg"],
        "profiling_name": name,
        "time_created_ns": 1_000 * number,
        "input_sizes": [[8, 4]],
        "input_dtypes": ["Float"],
        "retired": True,
        "is_p2p": False,
    } | other


def test_calls_come_in_order_with_name_and_size():
    calls = read_calls([entry(2, "gloo:barrier", input_sizes=[]), entry(1)])
    assert list(map(str, calls)) == ["all_reduce of f32[8, 4]", "barrier"]
    assert [(call.number, call.start) for call in calls] == [(1, 1_000), (2, 2_000)]


def test_the_bytes_of_a_call_are_shapes_times_widths():
    kinds = {"BFloat16": 2, "Bool": 1, "Long": 8, "ComplexDouble": 16, "Unheard": 4}
    for kind, width in kinds.items():
        sizes = {"input_sizes": [[2, 3], [5]], "input_dtypes": [kind, kind]}
        assert read_calls([entry(0, **sizes)])[0].bytes == width * (6 + 5)


def test_a_group_made_anew_begins_anew():
    old = [entry(1), entry(2)]
    new = entry(3, "gloo:broadcast", collective_seq_id=1, pg_id=1)
    assert [call.name for call in newest(read_calls([new, *old]))] == ["broadcast"]


def test_a_group_made_anew_is_known_where_its_first_numbers_have_no_entry():
    calls = read_calls(json.loads(MADE_ANEW))
    assert [(call.generation, call.number) for call in calls] == [
        (0, 1),
        (1, 3),
        (1, 4),
    ]
    assert [call.name for call in newest(calls)] == ["broadcast", "barrier"]


def test_a_group_whose_first_calls_are_forgotten_is_one_group():
    # the recorder keeps the last calls only
    kept = [entry(9), entry(10), entry(11, pg_id=2, process_group=["1", "undefined"])]
    calls = newest(read_calls(kept))
    assert [(c.group, c.generation, c.number) for c in calls] == [
        ("0", 0, 9),
        ("0", 0, 10),
        ("1", 0, 11),
    ]


def test_sends_are_no_collectives_and_begin_no_group():
    # a send of nccl has the number of the collective before it
    send = entry(2, "nccl:send 0->1", is_p2p=True, collective_seq_id=1)
    nccl = [entry(n, "nccl:all_reduce", collective_seq_id=n - n // 2) for n in (1, 3)]
    calls = read_calls([nccl[0], send, nccl[1]])
    assert [(call.name, call.number) for call in calls] == [
        ("all_reduce", 1),
        ("all_reduce", 2),
    ]
    assert newest(calls) == calls


def test_one_group_of_two_backends_counts_for_each_of_them():
    # as init_process_group() makes it where there are GPUs
    calls = read_calls([entry(1), entry(2), entry(1, "nccl:all_reduce")])
    assert newest(calls) == calls
    assert {call.backend for call in calls} == {"gloo", "nccl"}


def test_a_call_that_waits_is_not_done():
    assert not read_calls([entry(1, retired=False)])[0].done


def test_one_collective_fits_on_two_ranks():
    first, second = read_calls([entry(1)])[0], read_calls([entry(1)])[0]
    other = read_calls([entry(1, input_sizes=[[9]])])[0]
    assert first.fits(second)
    assert not first.fits(other)


# --- real ranks


def _make_groups(rank, world_size):
    import torch
    import torch.distributed as dist

    def pass_on(source, target):
        if rank == source:
            dist.send(torch.ones(4), target)
        if rank == target:
            dist.recv(torch.ones(4), source)

    dist.init_process_group("gloo")
    pass_on(0, 1)
    dist.all_reduce(torch.ones(4))
    pass_on(0, 1)
    # rank 2 is no member: the next group has another pg_id there
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(torch.ones(2), group=pair)
    every = dist.new_group([0, 1, 2])
    dist.broadcast(torch.ones(3), 0, group=every)
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    dist.monitored_barrier()
    pass_on(1, 2)
    dist.all_reduce(torch.ones(5))
    dist.destroy_process_group()
    return [call for call in read_calls(entries()) if call.name != "barrier"]


def test_three_ranks_agree_on_groups_and_numbers():
    calls = launch(_make_groups, world_size=3)
    shared = [
        [
            (c.group, c.generation, c.number, c.carries)
            for c in own
            if c.carries != "f32[2]"
        ]
        for own in calls
    ]
    groups = [(group, generation) for group, generation, _, _ in shared[0]]
    assert shared[0] == shared[1] == shared[2]
    assert groups == [("0", 0), ("2", 0), ("0", 1)]
    assert [call.carries for call in newest(calls[0])] == ["f32[2]", "f32[3]", "f32[5]"]
