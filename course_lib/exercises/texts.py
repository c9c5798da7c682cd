"""What a judge says to a learner: sentences and hints, kept beside it as text.

`texts.ini` has a section for each sentence: `found` is what an answer did and what a
right one does, `hint` what to do about it. `[proof]` has what is proven of a right
answer, with what the judge says of each case for `{}`. The section `[hints]` has those
of which a judge picks one. Names in braces are filled in; `${name}` is another text of
the same section or of `[DEFAULT]`. `[task]` has what is said of the exercise itself.
"""

from course_lib.exercises import folders
from course_lib.exercises.exercise import Wrong


class Texts:
    """The sentences and hints of one exercise."""

    def __init__(self, exercise: str):
        self.exercise = exercise

    @property
    def proof(self) -> str:
        """What is proven of a right answer, for `format` with what the cases show."""
        return folders.texts(self.exercise)["proof"]["found"].replace("\n", " ")

    def wrong(
        self, section: str, /, *, why="", hint="", clue=None, also=None, **fill
    ) -> Wrong:
        """Return the `Wrong` of a section, filled in.

        Its hint is its own, or the one that `why` names, or the text `hint`.
        """
        texts = folders.texts(self.exercise)[section]
        if not hint:
            own = _filled(texts.get("hint", ""), fill)
            hint = self.hint(why, **fill) if why else own
        return Wrong(_filled(texts["found"], fill), hint, clue=clue, also=also)

    def differing(self, facts, **fill) -> Wrong | None:
        """Return the `Wrong` of the first fact that is not as expected, or None.

        A fact is the name of a section, the number of each rank, the right one, and
        which are allowed, from the least to the most.
        """
        for name, numbers, right, least, most in facts:
            for rank, found in enumerate(numbers):
                if not least <= found <= most:
                    where = {"rank": rank, "ranks": len(numbers)} | fill
                    told = {"found": found, "right": right} | where
                    return self.wrong(name, clue={name: numbers}, **told)
        return None

    def refuse(self, facts, **fill) -> None:
        """Raise the `Wrong` of the first fact that is not as expected."""
        if wrong := self.differing(facts, **fill):
            raise wrong

    def hint(self, name: str, /, **fill) -> str:
        """Return a hint of the section `[hints]`, filled in."""
        return _filled(folders.texts(self.exercise)["hints"][name], fill)


def _filled(text, fill):
    return text.replace("\n", " ").format(**fill)
