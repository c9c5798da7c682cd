"""Stage 02, gradient accumulation: its exercises.

Each check first compares gradients or weights with those of whole batches, then what
they cost. Only an answer that differs is looked into, to find the hint for its mistake.
"""

from course_lib.exercises.attempt import Exercise
from course_lib.exercises.stages.stage02.budget import check_budget
from course_lib.exercises.stages.stage02.loop import check_loop
from course_lib.exercises.stages.stage02.tokens import check_tokens
from course_lib.exercises.stages.stage02.uneven import check_uneven

EXERCISES = (
    Exercise(
        "2.1",
        "Train in micro-batches",
        15,
        check_loop,
        (
            "What happens once for each batch, and what once for each micro-batch? Sort"
            " these: zero_grad, forward, backward, step.",
            "`images.chunk(k)` and `labels.chunk(k)` cut a batch; `zip` pairs the"
            " pieces. Each loss is a mean: what makes their sum the mean of the batch?",
            "Call `(loss / k).backward()` right after each forward. For the log add up"
            " `loss.item() / k`, from 0 for each batch.",
        ),
    ),
    Exercise(
        "2.2",
        "Accumulate uneven micro-batches",
        10,
        check_uneven,
        (
            "Each sample of the batch should count 1/N. What does it count in a"
            " micro-batch of n samples whose loss is a mean?",
            "A mean over n samples, times n/N, is their part of the mean over N.",
            "Count first: `total = sum(len(labels) for _, labels in microbatches)`."
            " Then a loop with one backward for each.",
        ),
    ),
    Exercise(
        "2.3",
        "Average over tokens",
        15,
        check_tokens,
        (
            "Which targets count? How many are there in all micro-batches together?",
            "`(targets != -100).sum()` counts those of one micro-batch.",
            "`cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction='sum')`"
            " adds up the losses of those that count, and gives 0 where there is none.",
        ),
    ),
    Exercise(
        "2.4",
        "Find the largest micro-batch that fits",
        20,
        check_budget,
        (
            "Write a helper that tries one size and says True or False. What does it"
            " leave behind when it fails?",
            "Keep two numbers: one that fits, one that does not. Try the middle, and"
            " move one of them, until they are neighbours.",
            "In the helper: `try:` two micro-batches, `except torch.OutOfMemoryError:`"
            " return False, `finally: model.zero_grad()`.",
        ),
    ),
)
