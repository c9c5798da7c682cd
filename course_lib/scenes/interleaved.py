"""The interleaved schedule as torch.distributed.pipelining lists it."""

from course_lib.errors import UsageError
from course_lib.scenes.arguments import whole_numbers

_MOST = 1024  # of devices and of micro-batches


def interleaved(p: int, m: int) -> list[tuple[int, str, int]]:
    """Return interleaved 1F1B for p devices of two stages each, m micro-batches.

    Instructions (stage, "forward" or "backward", micro-batch), those of device 0 first;
    stage s lies on device s mod p. The order is that of torch's own
    `ScheduleInterleaved1F1B`, asked without a process group.

    Errors: `UsageError` where torch has none, as for 3 devices and 16 micro-batches.
    Source: Narayanan et al. 2021, *Efficient Large-Scale Language Model Training on GPU
    Clusters Using Megatron-LM*.
    """
    whole_numbers("p", p, most=_MOST)
    whole_numbers("m", m, most=_MOST)
    try:
        ranks = actions("Interleaved1F1B", p, m, chunks=2)
    except ValueError as error:
        text = f"torch cannot interleave {m} micro-batches on {p} devices: {error}"
        raise UsageError(text) from None
    return [instruction for rank in ranks for instruction in rank]


def actions(name: str, p: int, m: int, *, chunks: int = 1) -> list[list[tuple]]:
    """Return the instructions of each rank in a schedule of torch, as in "1F1B"."""
    # torch draws its schedules from these lists. The public classes have them too, but
    # need stages, which need a process group
    from torch.distributed.pipelining import _schedule_visualizer

    ranks = _schedule_visualizer.get_schedule_ops(name, p, m, chunks)
    kinds = {"FORWARD": "forward", "FULL_BACKWARD": "backward"}
    return [
        [
            (action.stage_index, kinds[kind], action.microbatch_index)
            for action in rank
            if action and (kind := action.computation_type.name) in kinds
        ]
        for rank in ranks
    ]
