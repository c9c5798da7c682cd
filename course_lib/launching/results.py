"""What a launch gives back: one value per rank, its output, its trace, its meter."""

from collections.abc import Sequence

from course_lib.display import html_table
from course_lib.text import short
from course_lib.tracing.events import Trace
from course_lib.tracing.meter import Meter


class Results(Sequence):
    """What each rank returned: `results[rank]`; and what was noted beside it.

    `output[rank]` is the text that the rank wrote, `seconds[rank]` how long its
    function ran, `trace` the recorded events (None without `trace=True`), `meter` what
    it sent: messages, bytes, rounds. `agents[node]` is what torchrun's agent of that
    node wrote (empty without `nodes=`).
    """

    def __init__(self, values, *, output, seconds, trace, meter, title, agents=()):
        self._values, self.title, self.agents = list(values), title, list(agents)
        self.output, self.seconds = output, seconds
        self.trace: Trace | None = trace
        self.meter: Meter = meter

    def __getitem__(self, rank):
        return self._values[rank]

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f"Results of {self.title}: [{', '.join(map(short, self))}]"

    def _repr_html_(self):
        seconds = (f"{time:.3f}" for time in self.seconds)
        lines = (text.count("\n") for text in self.output)
        rows = zip(range(len(self)), map(short, self), seconds, lines)
        return html_table(("rank", "returned", "seconds", "lines of output"), rows)
