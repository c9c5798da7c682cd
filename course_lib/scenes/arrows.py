"""Arrows between ranks that stand in a row: in lanes, so that none lies on another."""

from collections.abc import Iterable, Iterator

from course_lib.scenes.items import Item

LANE = 8  # of 640, the width of a figure
_APART = 4  # from the middle of a rank


def assign_lanes(pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return the lane of each pair, short ones first; there and back share."""
    spans, places = {}, {}
    for pair in sorted(pairs, key=lambda pair: (abs(pair[1] - pair[0]), pair)):
        if pair[::-1] in places:
            places[pair] = places[pair[::-1]]
            continue
        start, stop = sorted(pair)
        lane = 0
        while any(a < stop and start < b for a, b in spans.get(lane, ())):
            lane += 1
        spans.setdefault(lane, []).append((start, stop))
        places[pair] = lane
    return places


def room(rounds: Iterable[list[tuple[int, int]]]) -> int:
    """Return how high the arrows are of that round which needs most lanes."""
    counts = (len({*assign_lanes(pairs).values()}) for pairs in rounds)
    return LANE * max(counts, default=0)


def arrows(
    pairs: list[tuple[int, int]], middles: list[float], top: float, *, name=""
) -> Iterator[Item]:
    """Yield an arrow for each pair, from middle to middle, the first lane at `top`."""
    for (source, target), lane in assign_lanes(pairs).items():
        side = _APART if target > source else -_APART
        x, stop = middles[source] + side, middles[target] - side
        at = x, top + LANE * lane, stop - x, 0
        yield Item(f"{name}arrow {source} {target}", *at, "arrow")
