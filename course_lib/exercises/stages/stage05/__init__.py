"""Stage 05, shared tensors: its exercises.

Each check first compares values and cost. Chance plays no part: where processes may get
in each other's way, the check holds one of them until they do.
"""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage05.hogwild import check_train
from course_lib.exercises.stages.stage05.leaking import check_digest

EXERCISES = (
    Exercise(
        "5.2",
        "Hogwild: one model, many processes, no lock",
        20,
        check_train,
        (
            "Which part is in shared memory, and which does each process have for"
            " itself? Weights; gradients, optimizer, random numbers, threads.",
            "`model.share_memory()` in the parent, before the first start. The rest of"
            " the training is the plain loop, in the function that each process runs.",
            "At its head, in each process: `torch.set_num_threads(1)` and a seed of its"
            " own, `torch.manual_seed(number)`. Then a shuffling DataLoader and an"
            " optimizer, both made there.",
            "`zero_grad()` before each backward drops the gradients that the model came"
            " with, which share_memory() has shared as well.",
        ),
    ),
    Exercise(
        "5.3",
        "Find and fix the leak",
        10,
        check_digest,
        (
            "What does `best` hold after the loop, and what does each of its entries"
            " keep alive? And what else is kept until the end?",
            "`images[i]` is a view: it has no memory of its own. A tensor in shared"
            " memory lives, with its descriptor, as long as any view of it.",
            "`images[i].clone()` is a copy. And ten counts, to which each batch adds"
            " `torch.bincount(labels, minlength=10)`, need no list of labels.",
        ),
    ),
)
