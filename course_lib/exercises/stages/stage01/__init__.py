"""Stage 01, model parallel: its exercises.

Each check first compares values, then what they cost: bytes that cross, peak memory,
time. Only an answer that fails is looked into, to find the hint for its mistake.
"""

from course_lib.exercises.attempt import OldExercise as Exercise
from course_lib.exercises.stages.stage01.counting import check_bytes
from course_lib.exercises.stages.stage01.cutting import check_cut
from course_lib.exercises.stages.stage01.overlapping import check_overlap
from course_lib.exercises.stages.stage01.splitting import check_split

EXERCISES = (
    Exercise(
        "1.1",
        "Split a model over two devices",
        10,
        check_split,
        (
            "A slice of a Sequential is a Sequential: model[:k] and model[k:]. Which k"
            " is half of the layers?",
            "Move each half once, in split. Then define a small function that runs the"
            " first half, moves its output, runs the second half.",
            "`return lambda x: part_2(part_1(x).to(devices[1]))`",
        ),
    ),
    Exercise(
        "1.2",
        "Choose the cut",
        15,
        check_cut,
        (
            "For one k: what does each device hold? 20 bytes per parameter of its part,"
            " and the activations of its part.",
            "The activations: run x through the modules on the CPU, one by one, and"
            " note the bytes of each output (`tensor.nbytes`).",
            "Try every k from 1 to len(model) - 1. Return the k for which the larger of"
            " the two sums is smallest: `min(range(1, len(model)), key=...)`.",
        ),
    ),
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
    Exercise(
        "1.4",
        "Count the bytes of a training",
        10,
        check_bytes,
        (
            "`zip(widths, widths[1:])` gives (in, out) of each Linear. How many numbers"
            " does it hold, with biases?",
            "Gradients are as many as parameters, Adam keeps two numbers for each. All"
            " of them have 4 bytes.",
            "Activations: samples × the sum of all widths × 4 bytes. The batch is the"
            " first width, the output the last.",
        ),
    ),
)
