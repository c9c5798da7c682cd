"""Stage 03, DataParallel: its exercises.

Each check first compares values with those of one device, then counts what travels.
Only an answer that differs is looked into, to find the hint for its mistake.
"""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage03.bytes_sent import check_bytes
from course_lib.exercises.stages.stage03.drifting import check_drifting

EXERCISES = (
    Exercise(
        "3.2",
        "Find the replica that drifted",
        15,
        check_drifting,
        (
            "The cell below the loop says how far each replica is from the first."
            " Which one is not at 0?",
            "Equal replicas need equal gradients. Print `other.grad` of each replica"
            " right before the steps: whose is different?",
            "`first, *others` has taken the first one out already. What does"
            " `others[1:]` leave out?",
        ),
    ),
    Exercise(
        "3.3",
        "Predict the bytes of a step",
        20,
        check_bytes,
        (
            "Start with the sizes in bytes: parameters, buffers, images, outputs. A"
            " tensor knows its own: `tensor.nbytes`.",
            "DataParallel, what starts at device 0: in forward parameters, buffers and"
            " shares of the images; in backward the gradients of the outputs.",
            "Parameters and buffers go whole to n − 1 devices. Of images and outputs"
            " (n − 1)/n go out in all.",
            "DDP: a ring sends (n − 1)/n of the gradients twice. Gradients are as large"
            " as parameters.",
        ),
    ),
)
