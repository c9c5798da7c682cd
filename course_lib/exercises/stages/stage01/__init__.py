"""Stage 01, model parallel: its exercise that is still to be moved."""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage01.overlapping import check_overlap

EXERCISES = (
    Exercise(
        "1.3",
        "Keep both devices busy",
        15,
        check_overlap,
        (
            "Cut x into equal micro-batches. Each goes through part_1, is moved, and"
            " goes through part_2 at once, before the next one starts.",
            "Keep the outputs in a list. `torch.cat` makes them one tensor, with one"
            " loss over all samples: then nothing needs a weight.",
            "How many? 1 leaves the devices waiting for each other, 64 read all weights"
            " 64 times. Try 4.",
        ),
    ),
)
