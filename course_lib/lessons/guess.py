"""Ask before you show: a question with buttons, which the learner's own run answers."""

import configparser
import functools
import math
import numbers
from pathlib import Path
from typing import Any

from course_lib.display import in_notebook, prose
from course_lib.errors import UsageError
from course_lib.exercises import progress

SENTENCES = Path(__file__).parent / "guesses"
NEXT_TIME = "Next time guess first."
AGAIN = "Other programs disturbed this run: run the cell again."
_CARD = "border-left:4px solid #0072b2;padding:2px 0 2px 10px;margin:4px 0"
_NEAR = 1 / 6  # of the way to the next option: so far a run gives the same answer
_KEYS = "decided by", "possible", "disturbed"  # of a section, beside wrong options


class Outcome:
    """What a run has shown, and what was guessed before.

    `kind` is "timed" for a measured time, "timed other" where a quiet machine gives
    another answer, and empty for all else.
    """

    def __init__(self, seen: str, rest: str = "", *, kind: str = ""):
        self.seen, self.rest, self.kind = seen, rest, kind

    def __repr__(self):
        return f"{self.seen}{self.rest}"

    def _repr_html_(self):
        seen, rest = map(prose, (self.seen, self.rest))
        kind = f' class="{self.kind}"' if self.kind else ""
        return f'<div style="{_CARD}"{kind}><b>{seen}</b>{rest}</div>'


class Guess:
    """A question and its options; `was` says what the learner's run has shown."""

    def __init__(self, name, question, options: tuple, *, unit="", timed=False):
        self.name, self.question, self.unit = name, question, unit
        self.timed = timed
        self.options = {self.text(option): option for option in options}
        _refuse(self, options)
        self.choice = self._earlier()
        self._buttons: Any = None  # made with ipywidgets, where these are

    def text(self, value) -> str:
        """Write a value as its button shows it: `2 MB`, `yes`."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, numbers.Number):
            unit = f" {self.unit}" if self.unit else ""
            return f"{_number(value)}{unit}"
        return str(value)

    def was(self, value) -> Outcome:
        """Return what the run has shown, beside what was guessed.

        `value` is one of the options, True or False for "yes" and "no", or a number:
        the nearest option counts then, by ratio if all are above 0.
        """
        seen = self.text(_plain(value))
        truth = self._truth(_plain(value))
        kind = self._kind(_plain(value), truth)
        if truth is None:
            seen += ", which was not among the options"
        elif kind == "impossible":
            seen += ", which no quiet machine gives"
        elif truth != seen:
            seen += f", nearest to {truth}"
        if self._buttons:
            self._buttons.answered(_ended(seen))
        if kind in ("impossible", "timed other"):
            return Outcome(_ended(seen), self._otherwise(kind), kind="timed other")
        if self.choice is None:
            rest = f" {NEXT_TIME}" if self._buttons else ""
            return Outcome(_ended(seen), rest, kind=kind)
        if self.choice == truth:
            return Outcome(seen, ", as you guessed.", kind=kind)
        return Outcome(_ended(seen), self._wrong(_plain(value), truth), kind=kind)

    @property
    def quiet(self) -> str | None:
        """Return the one option without a sentence why it is wrong, or None.

        A quiet machine gives it, and the sentences about the others are written for it.
        """
        right = self.options.keys() - sentences(self.name).keys()
        return right.pop() if len(right) == 1 else None

    def _kind(self, value, truth):
        """Return what the answer of a run is beside that of a quiet machine."""
        if not self.timed:
            return ""
        least, most = possible(self.name)
        if _is_number(value) and not least <= value <= most:
            return "impossible"
        return "timed" if truth == self.quiet else "timed other"

    def _otherwise(self, kind):
        """Say of a measured time that a quiet machine does not give it."""
        why = section(self.name).get("disturbed", "").replace("\n", " ")
        here = AGAIN if kind == "impossible" else "That is what came out here."
        guessed = f" You guessed {_ended(self.choice)}" if self.choice else ""
        return f" {here} On two quiet cores it is {_ended(self.quiet)} {why}{guessed}"

    def _wrong(self, value, truth):
        """Say of a wrong choice why it is, if the run shows what that is about."""
        reasons = sentences(self.name)
        shown = truth is not None and truth not in reasons and self._is(value, truth)
        if not shown or self.choice not in reasons:
            return f" You guessed {_ended(self.choice)}"
        return f" You guessed {self.choice}: {reasons[self.choice]}"

    def _is(self, value, truth):
        """Return whether what was written of an option is true of a value beside it.

        A count of another run, of 3 ranks for 4, is nearest to an option, and no more.
        """
        options = [*self.options.values()]
        if self.timed or not all(map(_is_number, [value, *options])):
            return True
        gaps = (self._away(self.options[truth], text) for text in self.options)
        return self._away(value, truth) <= _NEAR * min(filter(None, gaps))

    def _away(self, value, text):
        """Return how far a value is from an option: by ratio if all are above 0."""
        option, options = self.options[text], self.options.values()
        scale = math.log if min(value, *options) > 0 else float
        return abs(scale(option) - scale(value))

    def choose(self, option: str) -> str:
        """Keep the option with this text; a reason comes back if that fails."""
        self.choice = option
        return progress.keep_guess(self.name, self.options[option]) or ""

    def _earlier(self):
        """Return the text of the option chosen in an earlier run, or None."""
        earlier = progress.guesses().get(self.name, ...)
        texts = (text for text, value in self.options.items() if value == earlier)
        return next(texts, None)

    def _truth(self, value):
        """Return the text of the option that a value stands for, or None."""
        if self.text(value) in self.options:
            return self.text(value)
        options = list(self.options.values())
        if not all(map(_is_number, [value, *options])) or not math.isfinite(value):
            return None
        return min(self.options, key=lambda text: self._away(value, text))

    def show(self) -> None:
        """Show buttons in a notebook; elsewhere nothing: nobody could press them."""
        if not in_notebook():
            return
        try:
            from course_lib.lessons.buttons import Buttons

            self._buttons = Buttons(self)
        except ImportError:  # no ipywidgets: the question as text
            print(repr(self))
            return
        self._buttons.show()

    def __repr__(self):
        return f"{self.question} {' / '.join(self.options)}"


def guess(name: str, question: str, *options, unit="", timed=False) -> Guess:
    """Ask with buttons, `cl.guess("00-lines", "How many lines?", 1, 2, 4)`.

    Nothing is revealed. Call `was(value)` on what comes back in the cell whose run
    answers. Without a guess it says only what was seen, so that "Run all" and scripts
    work. A guess is kept like progress, and a second run remembers it.
    `name` is the lesson's number and a word of its own; `unit` stands behind numbers.
    `timed` says that the answer is a measured time: where a busy machine gives another
    one than a quiet one does, the outcome says both, and why.

    Errors: `UsageError` for fewer than two options, equal ones, or no question.
    """
    asked = Guess(name, question, options, unit=unit, timed=timed)
    asked.show()
    return asked


def _refuse(asked, options):
    """Raise where a question could not be asked."""
    how = 'as in cl.guess("00-lines", "How many lines?", 1, 2, 4)'
    for what, value in (("name", asked.name), ("question", asked.question)):
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"a guess needs a {what} in quotes, {how}; got {value!r}")
    if len(options) < 2:
        count = "one option" if options else "no option"
        raise UsageError(f"{asked.name}: {count} is no choice. Give two or more, {how}")
    if len(asked.options) < len(options):
        texts = list(map(asked.text, options))
        twice = next(text for text in texts if texts.count(text) > 1)
        raise UsageError(f"{asked.name}: two options are {twice!r}. Make them differ")
    if asked.timed and not asked.quiet:
        need = "a sentence for each option but that of a quiet machine"
        raise UsageError(f"{asked.name} is timed, so guesses/ needs {need}")


def _ended(text):
    """End a text as a sentence: "1, 4, 7 …" ends already."""
    return text if text.endswith((".", "…")) else f"{text}."


def _plain(value):
    """Return a tensor or NumPy number of one element as Python's own."""
    return value.item() if hasattr(value, "item") else value


def _is_number(value):
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def _number(value):
    """At most three digits that count, or all of a whole number, without exponent."""
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    if digits > 6:
        return f"{value:.2g}"
    rounded = f"{value:,.{digits}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded


def sentences(name: str) -> dict[str, str]:
    """Return why each tempting wrong option of a guess is not so; from `guesses/`."""
    rows = section(name).items()
    return {key: why.replace("\n", " ") for key, why in rows if key not in _KEYS}


def possible(name: str) -> tuple[float, float]:
    """Return the least and most that a measured time can be: `possible = 1 to 10`."""
    least, _, most = section(name).get("possible", "-inf to inf").partition(" to ")
    return float(least), float(most)


def section(name: str) -> dict[str, str]:
    """Return all that `guesses/` says about a guess.

    Where a lesson was cut in two, a guess that moved to the second keeps its name.
    """
    for path in sorted(SENTENCES.glob(f"{name.partition('-')[0]}*.ini")):
        texts = read_sentences(path.stem)
        if name in texts:
            return dict(texts[name])
    return {}


@functools.cache
def read_sentences(lesson: str) -> configparser.ConfigParser:
    """Return all sentences of a lesson: a section for each guess, empty without a file.

    `decided by` is the id of a cell before the question that makes it decidable.
    `disturbed` says why a busy machine gives another answer, `possible` what can be;
    both are for measured times. Each other key is a wrong option, the most tempting
    one first.
    """
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#",), interpolation=None
    )
    parser.optionxform = str  # type: ignore[assignment]  # as configparser's page has it
    parser.read(SENTENCES / f"{lesson}.ini", encoding="utf-8")
    return parser
