"""Stage 04, distributed data parallel: its exercises."""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage04.training import check_train

EXERCISES = (
    Exercise(
        "4.5a",
        "Find the bug: every epoch the same",
        5,
        check_train,
        (
            "Print the first five samples that rank 0 reads in each epoch. What do you"
            " notice?",
            "The sampler makes its order from a seed and the number of the epoch. Who"
            " tells it the number?",
        ),
    ),
)
