"""The buttons of a guess in a notebook."""

import ipywidgets
from IPython.display import display

from course_lib.display import prose
from course_lib.lessons.names import names

_HELP = "Choose, then run the next cell. Nothing is revealed before."
_SMALL = "font-size:90%;opacity:.8"


class Buttons:
    """A question, a row of buttons, a line about what was chosen."""

    def __init__(self, guess):
        self._guess = guess
        self._row = ipywidgets.ToggleButtons(
            options=list(guess.options),
            value=guess.choice,
            tooltips=[f"Guess: {text}" for text in guess.options],
            style={"button_width": "auto"},
        )
        self._line = ipywidgets.HTML()
        self._row.observe(self._clicked, "value")
        self._say(f"You guess {guess.choice}, as before." if guess.choice else _HELP)

    def show(self):
        """Put them into the cell, with a text for where there are no widgets."""
        question = f"<b>{prose(self._guess.question)}</b>"
        title = ipywidgets.HTML(question)
        box = ipywidgets.VBox([title, self._row, self._line, names()])
        box.add_class("course-guess")
        options = " · ".join(map(prose, self._guess.options))
        text = f'{question}<br>{options}<br><span style="{_SMALL}">{HOW}</span>'
        view = "application/vnd.jupyter.widget-view+json"
        bundle = {"text/plain": repr(self._guess), "text/html": text}
        bundle[view] = box._repr_mimebundle_()[view]
        display(bundle, raw=True)

    def answered(self, seen):
        """Let nobody click any more: it would be no guess."""
        self._row.disabled = True
        choice = self._guess.choice
        guessed = f"You guessed {choice}; it was" if choice else "It was"
        self._say(f"{guessed} {seen} Run this cell again to guess again.")

    def _clicked(self, change):
        if change["new"] is None:
            return
        lost = self._guess.choose(change["new"])
        kept = f" (It will not outlive this kernel: {lost})" if lost else ""
        self._say(f"You guess {change['new']}. Now run the next cell.{kept}")

    def _say(self, text):
        self._line.value = f'<span style="{_SMALL}">{prose(text)}</span>'


HOW = "Run this cell to guess: it has a button for each."
