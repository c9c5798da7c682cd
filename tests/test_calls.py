"""PyTorch's flight recorder tells which collectives a rank has called."""

from course_lib.tracing import flight_recorder


def entry(number, name="gloo:all_reduce", **other):
    """As gloo's recorder of torch 2.13 writes it."""
    return {
        "record_id": number,
        "collective_seq_id": number,
        "process_group": ["0", "default_pg"],
        "profiling_name": name,
        "input_sizes": [[8, 4]],
        "input_dtypes": ["Float"],
        "retired": True,
        "is_p2p": False,
    } | other


def test_calls_come_in_order_with_name_and_size():
    found = flight_recorder.read([entry(2, "gloo:barrier", input_sizes=[]), entry(1)])
    assert list(map(str, found)) == ["all_reduce of f32[8, 4]", "barrier"]
    assert [call.number for call in found] == [1, 2]


def test_a_group_made_anew_begins_anew():
    old = [entry(1), entry(2)]
    new = entry(3, "gloo:broadcast", collective_seq_id=1)
    assert [call.name for call in flight_recorder.read([*old, new])] == ["broadcast"]


def test_sends_are_no_collectives():
    assert flight_recorder.read([entry(1, "gloo:send", is_p2p=True)]) == []


def test_a_call_that_waits_is_not_done():
    assert not flight_recorder.read([entry(1, retired=False)])[0].done


def test_one_collective_fits_on_two_ranks():
    first, second = (
        flight_recorder.read([entry(1)])[0],
        flight_recorder.read([entry(1)])[0],
    )
    other = flight_recorder.read([entry(1, input_sizes=[[9]])])[0]
    assert first.fits(second)
    assert not first.fits(other)
