"""What judges say is there, is used, and has all that it is filled with."""

import ast
import re
import string

import pytest

from course_lib.exercises import folders

EXERCISES = [*folders.by_exercise()]


STATES = folders.HERE / "file_states.py"  # it names what 8.3 says of a file


def source(exercise):
    parts = sorted(folders.folder(exercise).glob("*.py"))
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def names(exercise):
    """The names of an exercise's sentences, and of the hints that are not shared."""
    read = folders.texts(exercise)
    sentences = set(read.sections()) - {"task", "proof", "hints"}
    hints = set(read["hints"]) if read.has_section("hints") else set()
    return sentences, hints - set(read.defaults())


def in_tables(text):
    """The names that begin the rows of tables for `Texts.refuse` and `differing`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 5:
            name, numbers, *_ = node.elts
            strings = isinstance(name, ast.Constant) and isinstance(name.value, str)
            if strings and not isinstance(numbers, ast.Constant):
                yield name.value


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_sentence_and_each_hint_is_used(exercise):
    texts = [text for text in map(source, EXERCISES) if exercise in text]
    if exercise == "8.3":
        texts.append(STATES.read_text(encoding="utf-8"))
    strings = {
        node.value
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    sentences, hints = names(exercise)
    assert sentences | hints <= strings


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_name_that_a_judge_gives_is_there(exercise):
    sentences, _ = names(exercise)
    found = set(re.findall(r'_(?:TEXTS\.)?wrong\(\s*"([^"]+)"', source(exercise)))
    found |= set(in_tables(source(exercise)))
    assert bool(found) == bool(sentences) and found <= sentences


@pytest.mark.parametrize("exercise", EXERCISES)
def test_texts_are_sentences_that_can_be_filled_in(exercise):
    read = folders.texts(exercise)
    for section in read.sections():
        for name, text in read[section].items():
            fields = [field for _, field, *_ in string.Formatter().parse(text)]
            named = [field for field in fields if field is not None]
            one = section == "proof" and named == [""]
            assert one or all(map(str.isidentifier, named)), name
            hint = name == "hint" or section == "hints"
            assert not hint or text.rstrip("`'\")")[-1] in ".?:", (section, name)
