"""The regions of a training step: one forward, one backward, one optimizer step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Region:
    """What operators belong to; two regions of one name are two."""

    name: str


def labels(uses: Iterable[tuple[object, Region | None]]) -> dict:
    """The name of each region on each device: `forward`, or `forward 0` of several.

    `uses` are pairs of a device and a region in order, None for no region ("other").
    """
    found = {}
    for device, region in uses:
        name = region.name if region else "other"
        found.setdefault((device, name), {})[region] = None
    return {
        (device, region): f"{name} {number}" if len(regions) > 1 else name
        for (device, name), regions in found.items()
        for number, region in enumerate(regions)
    }
