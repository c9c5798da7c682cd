"""What a rank hands to collectives, and when: between which of its forward passes."""

import itertools

import torch

from course_lib.exercises.counted_work import Work
from course_lib.tracing import flight_recorder


class Traffic(Work):
    """Counts the work of this rank, and what it hands to collectives meanwhile.

    `sent` lists for each forward pass the calls after it and before the next one, as
    pairs of a name and bytes; those before the first pass come first. `graphs` is how
    many there were at most that no backward had gone through.
    """

    def __init__(self, model: torch.nn.Module):
        super().__init__(model)
        self.graphs, self._held = 0, 0
        self._starts = [len(_calls())]

    def __exit__(self, *error):
        super().__exit__(*error)
        calls = _calls()
        ends = itertools.pairwise([*self._starts, len(calls)])
        self.sent = [calls[start:stop] for start, stop in ends]

    def calls(self, name: str) -> list[int]:
        """Return the bytes of each call of a collective since the first pass began."""
        return [size for after in self.sent[1:] for one, size in after if one == name]

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        result = super().__torch_dispatch__(operator, _types, args, kwargs)
        product = operator.overloadpacket is torch.ops.aten.mm
        # the gradient of the first weight, with which a backward ends
        if product and result.shape == self._shape[::-1]:
            self._held -= 1
        return result

    def note_pass(self, packet, args) -> None:
        """Note where in the run it is."""
        passes = len(self.passes)
        super().note_pass(packet, args)
        if len(self.passes) > passes:
            self._starts.append(len(_calls()))
            if torch.is_grad_enabled():
                self._held += 1
                self.graphs = max(self.graphs, self._held)
                self.note_training(*(args[place] for place in self._places[packet]))

    def note_training(self, weight, samples) -> None:
        """Note a pass that a backward may follow; for a subclass."""


def _calls():
    calls = flight_recorder.read_calls(flight_recorder.entries())
    return [(call.name, call.bytes) for call in calls]
