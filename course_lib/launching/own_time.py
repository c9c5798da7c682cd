"""The time of a launch that a busy machine did not keep from its ranks."""

from collections.abc import Iterable

from course_lib.system import processes


class OwnTime:
    """The time of a launch in which none of its ranks lacked a core.

    Ranks that wait for each other lack one in turn: each moment asks all of them.
    """

    def __init__(self):
        self.seconds = self._until = 0.0
        self._starved: dict[int, float] = {}

    def count(self, pids: Iterable[int], until: float) -> float:
        """Return it with what has passed `until` now, in seconds of the launch."""
        before = self._starved
        self._starved = {pid: processes.starved(pid) for pid in pids}
        lacked = max(
            (now - before.get(pid, 0.0) for pid, now in self._starved.items()),
            default=0.0,
        )
        self.seconds += max(0.0, until - self._until - lacked)
        self._until = until
        return self.seconds
