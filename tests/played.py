"""What the ranks of a schedule of `collectives` have: its moves, carried out."""

from collections.abc import Iterator

from course_lib.accelerators.collectives import Schedule


def run(schedule: Schedule, tensors: list) -> list[list]:
    """Return what each rank has in the end; a tensor is a list of numbers."""
    *_, has = states(schedule, tensors)
    return [
        [number for chunk in own for number in parts[chunk]]
        for own, parts in zip(schedule.ends, has)
    ]


def states(schedule: Schedule, tensors: list) -> Iterator[list[dict]]:
    """Yield what each rank has, `{chunk: numbers}`, before each round and at the end.

    A rank's list is cut into the chunks that it has at first, as evenly as possible.
    """
    has = [
        dict(zip(own, _cut(tensor, len(own))))
        for own, tensor in zip(schedule.starts, tensors, strict=True)
    ]
    got = [dict(parts) for parts in has]
    yield [dict(parts) for parts in has]
    for moves in schedule.rounds:
        sent = [
            {chunk: (got if m.forwards else has)[m.source][chunk] for chunk in m.chunks}
            for m in moves
        ]
        for move, parts in zip(moves, sent):
            got[move.target] = parts
            own = has[move.target]
            own |= _added(own, parts) if move.adds else parts
        yield [dict(parts) for parts in has]


def _cut(tensor, parts):
    ends = [len(tensor) * part // parts for part in range(parts + 1)] if parts else []
    return [list(tensor[start:stop]) for start, stop in zip(ends, ends[1:])]


def _added(own, parts):
    return {
        chunk: [a + b for a, b in zip(own[chunk], parts[chunk], strict=True)]
        for chunk in parts
    }
