"""Stage 04, distributed data parallel: its exercises."""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage04.by_hand import check_by_hand
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
    Exercise(
        "4.5b",
        "Find the bug: ranks that never agree",
        10,
        check_by_hand,
        (
            "Equal gradients change the weights of all ranks by the same amount. What"
            " must hold before the first step, so that the weights are equal after it?",
            "DDP does it when it wraps the model: rank 0's parameters go to all. By"
            " hand: a loop over `model.parameters()` with `dist.broadcast`.",
            "`dist.broadcast(parameter.data, src=0)`, on all ranks, before the loop.",
        ),
    ),
)
