"""Exercise 9.1, in a process: what an answer says of a model in each stage."""

from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return by stage what `answer(model, stage, ranks)` gives for a new model.

    `given` has `make`, which builds the model, and `ranks`.
    """
    return {
        "stages": {
            stage: {"returned": plain(answer(given["make"](), stage, given["ranks"]))}
            for stage in range(4)
        }
    }
