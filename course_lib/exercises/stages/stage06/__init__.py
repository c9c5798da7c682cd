"""Stage 06, batch size: its exercises.

Each check first compares numbers with those of a right answer, in one launch or two.
Only an answer that differs is looked into, to find the hint for its mistake.
"""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage06.noise import check_noise_scale

EXERCISES = (
    Exercise(
        "6.3",
        "Measure the noise scale with DDP",
        20,
        check_noise_scale,
        (
            "Two means are needed: of |g|² of each rank's own gradient, of b images,"
            " and of |g|² of the average over ranks, of B = world_size * b images.",
            "After DDP's backward `.grad` is the average. The own gradient is seen in a"
            " communication hook, before the all-reduce, or after a backward under"
            " `model.no_sync()`.",
            "|G|² = (B * big - b * small) / (B - b) and"
            " tr(Σ) = (small - big) / (1 / b - 1 / B): from the means over all batches"
            " and ranks, and divided once.",
            "Per batch: zero_grad and backward with the hook of the lesson, which adds"
            " up the squares of each bucket. Then the squares of all `.grad`. At the"
            " end all_reduce both sums and divide by the ranks.",
        ),
    ),
)
