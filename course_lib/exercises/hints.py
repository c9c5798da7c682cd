"""Hints: one more at each call, or by a button below a check that says not yet."""

from course_lib.cells import after_cell
from course_lib.display import in_notebook, prose
from course_lib.errors import UsageError
from course_lib.exercises import progress
from course_lib.exercises.catalog import find_exercise
from course_lib.exercises.exercise import Exercise


class Hint:
    """One hint, and how many there are."""

    def __init__(self, exercise: Exercise, number: int):
        count = len(exercise.hints)
        self.text = exercise.hints[number - 1]
        self.head = f"{exercise.id}, hint {number} of {count}"
        self.more = (
            f'cl.hint("{exercise.id}") again says more.'
            if number < count
            else "That was the last one; the answer is in solutions/."
        )

    def __repr__(self):
        return f"{self.head}: {self.text} {self.more}"

    def _repr_markdown_(self):
        return f"**{self.head}:** {self.text} {self.more}"


def next_hint(exercise: Exercise) -> Hint:
    """Return the next hint, which counts as seen from then on."""
    number = min(len(exercise.hints), seen(exercise) + 1)
    progress.note(exercise.id, "hint")
    return Hint(exercise, number)


def hint(exercise: str = "", number: int | None = None) -> Hint:
    """Return the next hint for an exercise, or the hint of that number (from 1).

    Errors: `UsageError` for an unknown exercise or number; it lists those there are.
    """
    task = find_exercise(exercise)
    if number is None:
        return next_hint(task)
    count = len(task.hints)
    if number not in range(1, count + 1):
        raise UsageError(f"exercise {task.id} has hints 1 to {count}, not {number!r}")
    return Hint(task, number)


def seen(exercise: Exercise) -> int:
    """Return how many hints of an exercise were asked for."""
    asked = progress.states().get(exercise.id, []).count("hint")
    return min(asked, len(exercise.hints))


def offer(exercise: Exercise) -> None:
    """Show a button for the next hint, in a notebook, below what the cell says."""
    if not in_notebook():
        return
    try:
        import ipywidgets
        from IPython.display import display
    except ImportError:
        return  # cl.hint says the same
    button, shown = ipywidgets.Button(layout={"width": "auto"}), ipywidgets.HTML()
    button.description = _label(exercise)

    def clicked(_):
        hint = next_hint(exercise)
        button.disabled = seen(exercise) == len(exercise.hints)
        text = f"{hint.text} {hint.more}" if button.disabled else hint.text
        shown.value += f"<p><b>{hint.head}:</b> {prose(text)}</p>"
        button.description = _label(exercise)
        if button.disabled:
            button.description = f"{exercise.id}: no more hints"

    button.on_click(clicked)
    after_cell(lambda: display(ipywidgets.VBox([button, shown])))


def _label(exercise):
    number = min(len(exercise.hints), seen(exercise) + 1)
    return f"{exercise.id}: hint {number} of {len(exercise.hints)}"
