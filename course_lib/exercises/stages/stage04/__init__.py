"""Stage 04, distributed data parallel: its exercises."""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage04.by_hand import check_by_hand
from course_lib.exercises.stages.stage04.saving import check_save
from course_lib.exercises.stages.stage04.training import check_train

EXERCISES = (
    Exercise(
        "4.3",
        "Evaluate and save on rank 0",
        20,
        check_save,
        (
            "Which lines are for rank 0 alone, which for all? A line in which all ranks"
            " take part must not stand under `if rank == 0`.",
            "On rank 0 work with `model.module`: calling the DDP wrapper is a"
            " collective when the model has BatchNorm. `eval()` keeps BatchNorm still.",
            "After rank 0 has saved: `dist.barrier()` on all ranks, then all load with"
            " `torch.load(path, map_location=device)`, and `model.train()` at the end.",
            "For the accuracy: all ranks make a tensor of one number, rank 0 fills in"
            " its own, `dist.broadcast(tensor, src=0)`.",
        ),
    ),
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
