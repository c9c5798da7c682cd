"""What a rank holds of a DTensor: its local part, and where this is in the tensor."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.display import html_table
from course_lib.text import short

Spans = tuple[tuple[int, int], ...]  # each its first index, and the one behind its last


@dataclass(frozen=True, repr=False, eq=False)
class DTensorPart:
    """What a rank has returned of a DTensor: plain data, which needs no process group.

    `shape` is that of the whole tensor, `local` the rank's part of it, on the CPU.
    `placements` are PyTorch's, as text, one for each axis of the mesh; `mesh_axes` are
    the names of these, if they have some. `spans` says for each dimension which indices
    the part has: `((48, 96),)` are 48 to 95.
    """

    shape: tuple[int, ...]
    local: torch.Tensor
    placements: tuple[str, ...]
    mesh_shape: tuple[int, ...]
    mesh_axes: tuple[str, ...]
    spans: tuple[Spans, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Return the first index in each dimension; its size where there is none."""
        return tuple(
            spans[0][0] if spans else size
            for spans, size in zip(self.spans, self.shape)
        )

    @property
    def layout(self) -> str:
        """Return the placements with their axes: `Shard(0) over dp=4`."""
        names = [f"{axis}=" for axis in self.mesh_axes] or [""] * len(self.mesh_shape)
        axes = zip(self.placements, names, self.mesh_shape)
        return ", ".join(f"{placement} over {n}{size}" for placement, n, size in axes)

    @property
    def whole(self) -> str:
        """Return type and shape of the whole tensor: `f32[192, 64]`."""
        return f"{_type(self.local)}{[*self.shape]}"

    def __repr__(self) -> str:
        part, place = self._words()
        return f"<{part} of {place}: {self.layout}>"

    def _repr_html_(self) -> str:
        heads = "part", "of the tensor", "placements"
        return html_table(heads, [(*self._words(), self.layout)])

    def _words(self):
        """`f32[48, 64]`, and where that is: `[192, 64] at [48, 0]`."""
        part = f"{_type(self.local)}{[*self.local.shape]}"
        return part, f"{[*self.shape]} at {[*self.offsets]}"


def _type(tensor):
    return short(tensor.reshape(-1)).partition("[")[0]


def is_dtensor(value) -> bool:
    """Return whether a value is a DTensor, without an import of what makes them."""
    module = sys.modules.get("torch.distributed.tensor")
    return isinstance(value, getattr(module, "DTensor", ()))


def local_part(tensor: Any) -> Any:
    """Return what this rank holds of a DTensor; anything else as it is."""
    if not is_dtensor(tensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def part_of(tensor) -> DTensorPart:
    """Return a DTensor of this rank as plain data, with a copy of its local part."""
    mesh = tensor.device_mesh
    # a copy of its own: it waits for a collective that is under way, and does not bring
    # along what shares its memory
    local = local_part(tensor).detach().to("cpu", copy=True)
    return DTensorPart(
        shape=tuple(tensor.shape),
        local=local,
        # as one writes them: `Shard(0)`
        placements=tuple(repr(p).replace("dim=", "") for p in tensor.placements),
        mesh_shape=tuple(mesh.shape),
        mesh_axes=tuple(mesh.mesh_dim_names or ()),
        spans=tuple(_spans(tensor, dim) for dim in range(tensor.dim())),
    )


def _spans(tensor, dim) -> Spans:
    """Return which indices of a dimension this rank has, as PyTorch deals them out."""
    mesh, size = tensor.device_mesh, tensor.shape[dim]
    place = mesh.get_coordinate()
    cuts = [getattr(placement, "dim", None) == dim for placement in tensor.placements]
    if place is None or not any(cuts):  # None: a rank outside of the mesh
        return () if place is None or not size else ((0, size),)
    index = torch.arange(size).view(
        [-1 if d == dim else 1 for d in range(tensor.dim())]
    )
    for placement, cut, count, own in zip(tensor.placements, cuts, mesh.shape, place):
        if cut:
            # as distribute_tensor does; the offset that checkpoints use is the first
            # index only, and a _StridedShard may have several pieces
            kept = {"with_padding": False, "contiguous": False}
            pieces, _ = placement._split_tensor(index, count, **kept)
            index = pieces[own]
    return _runs(index.flatten().tolist())


def _runs(numbers) -> Spans:
    """Return rising numbers as spans without a gap."""
    known = set(numbers)
    starts = (number for number in numbers if number - 1 not in known)
    stops = (number + 1 for number in numbers if number + 1 not in known)
    return tuple(zip(starts, stops))
