"""Stage 06, batch size: its exercises.

Each check first compares numbers with those of a right answer, in one launch or two.
Only an answer that differs is looked into, to find the hint for its mistake.
"""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage06.noise import check_noise_scale
from course_lib.exercises.stages.stage06.warming_up import check_scheduler

EXERCISES = (
    Exercise(
        "6.1",
        "Raise the rate with the batch, gradually",
        15,
        check_scheduler,
        (
            "What multiplies the own rate in update 0, in update `warmup_steps`, and"
            " halfway between? Write it as a function of the update.",
            "`LambdaLR(optimizer, factor)` is a scheduler that multiplies the own rate"
            " of every parameter group by `factor(update)`, from update 0 on. It takes"
            " factors above 1, LinearLR does not.",
            "The share of the warm-up that is over is `update / warmup_steps`, at most"
            " 1. For `warmup_steps=0` it is 1 from the start, without a division.",
            "The factor is `1 + (k - 1) * share`.",
        ),
    ),
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
