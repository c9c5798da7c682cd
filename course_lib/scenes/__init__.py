"""Figures that move: a reader plays them, steps through them, varies them.

Each scene lies in the module of its name. All are imported here, so that a name always
means the scene, also after its module was imported.
"""

from course_lib.scenes.accumulation import accumulation
from course_lib.scenes.all_reduces import all_reduces
from course_lib.scenes.buckets import buckets
from course_lib.scenes.collective import collective
from course_lib.scenes.dealing import dealing
from course_lib.scenes.interleaved import interleaved
from course_lib.scenes.lost_updates import lost_updates
from course_lib.scenes.memory_bars import memory_bars
from course_lib.scenes.memory_switches import memory_switches
from course_lib.scenes.messages import messages
from course_lib.scenes.nodes import nodes
from course_lib.scenes.noise import noise
from course_lib.scenes.overlap import overlap
from course_lib.scenes.pipeline import pipeline
from course_lib.scenes.sharding import sharding
from course_lib.scenes.timeline import timeline
from course_lib.scenes.transfers import transfers

# fmt: off
__all__ = [
    "accumulation", "all_reduces", "buckets", "collective", "dealing", "interleaved",
    "lost_updates", "memory_bars", "memory_switches", "messages", "nodes", "noise",
    "overlap", "pipeline", "sharding", "timeline", "transfers",
]
