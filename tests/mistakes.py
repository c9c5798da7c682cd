"""`make mistakes`: keep the fingerprints of known mistakes, beside their hints.

A mistake is a wrong answer in `wrong/` with a line `# mistake: ` (or a row with
`mistake = `). Its check runs once, and what that finds is kept in the package.
"""

import argparse
import json

import torch

from course_lib.exercises import checking, fingerprints, folders
from tests import answers
from tests.checking import mistake

# what starts processes of its own, or joins a group, does not run in this one
IN_RANKS = {"5.1", "5.2", "5.3", "7.1", "7.3", "4.8", "8.3"}


def fingerprint(answer: answers.Answer) -> dict | None:
    """What the check finds in a wrong answer; None if there is no clue to it."""
    called = answer.exercise not in IN_RANKS and not answer.slow
    timeout = answer.slow or None
    wrong = mistake(answer.exercise, answer.source, timeout=timeout, called=called)
    assert wrong, f"the check does not find {answer.place} wrong"
    return fingerprints.of(wrong)


def main(arguments=None) -> None:
    """Make the file of each exercise that is named, or of all."""
    parser = argparse.ArgumentParser(prog="make mistakes", description=__doc__)
    parser.add_argument("exercises", nargs="*", help="as 4.1; without one: all")
    asked = parser.parse_args(arguments).exercises or list(checking.exercises())
    torch.set_num_threads(1)
    for exercise in asked:
        rows = [a for a in answers.wrong() if a.exercise == exercise and a.makes]
        if rows:
            _keep(exercise, rows)


def _keep(exercise, rows):
    mistakes = []
    for answer in rows:
        print_of = fingerprint(answer)
        if print_of is None:
            raise SystemExit(
                f"{answer.place}: the judge of {exercise} gives no clue here, only its"
                " own hint. Write `hint` for `mistake`, or give its Wrong a clue."
            )
        mistakes.append({"name": answer.name, "hint": answer.hint, **print_of})
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in mistakes)
    path = folders.folder(exercise) / "mistakes.json"
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{exercise}: {len(mistakes)} mistakes")


if __name__ == "__main__":
    main()
