"""What the book makes of notebooks and pages, without building it: `make book` does."""

import json
import sys

import pytest

from benchmarks.lesson_times import least_guesses
from course_lib.lessons.guess import Guess, sentences
from docs.book import __main__ as command
from docs.book import builder, checks, contents, folds, names, outputs, sources
from docs.book.errors import BookError
from docs.book.links import Links

ADDRESS = "https://example.org/course"
LINKS = Links(contents.places(), ADDRESS, contents.ROOT)
LESSONS = contents.parts()["Lessons"]
CARD = outputs.page("<b>2.</b>") | {"output_type": "execute_result"}
ASKED = "<b>How many?</b><br>1 · 2 &lt; 3<br><span>Run this cell to guess.</span>"


def code(source, *pages, name="cell"):
    found = [outputs.page(p) if isinstance(p, str) else p for p in pages]
    return cell("code", source) | {"id": name, "outputs": found}


def text(source):
    return cell("markdown", source)


def cell(kind, source):
    return {"cell_type": kind, "id": "text", "source": source, "metadata": {}}


def folded(*cells):
    """The cells of a question, a run that answers, and what follows."""
    asks = code('n = cl.guess("00-lines", "How many?", 1, 2)', ASKED)
    why = {"1": "One is `few`."}
    return folds.with_answers([asks, *cells], lambda name: why)


def within_folds(cells):
    """For each cell whether it stands in a fold."""
    depths, depth = [], 0
    for cell in cells:
        depth -= cell["source"] == "</details>"
        depths.append(depth > 0)
        depth += cell["source"].startswith('<details class="answer">')
    return depths


# --- guesses


def test_a_question_is_shown_with_its_options_and_without_its_code():
    (asks,) = folded()
    (page,) = map(outputs.html_of, asks["outputs"])
    assert "<b>How many?</b>" in page and "Run this cell" not in page
    assert "<li>1</li><li>2 &lt; 3</li>" in page
    assert asks["metadata"]["tags"] == ["remove-input"]


def test_what_a_run_answers_is_folded_with_its_figure_and_its_code_is_not():
    cells = folded(code("n.was(2)", "printed", CARD, "<img>"))
    assert within_folds(cells) == [False, False, False, True, False]
    assert cells[1]["source"] == "n.was(2)" and not cells[1]["outputs"]
    assert "<summary>Answer: How many?</summary>" in cells[2]["source"]
    pages = list(map(outputs.html_of, cells[3]["outputs"]))
    why = '<dl class="why"><dt>1</dt><dd>One is <code>few</code>.</dd></dl>'
    assert pages == ["printed", "<b>2.</b>", why, "<img>"]


def test_runs_between_a_question_and_its_answer_are_folded_too():
    cells = folded(code("run()", "tells"), text("Now look."), code("n.was(2)", CARD))
    inside = [c["source"] for c, fold in zip(cells, within_folds(cells)) if fold]
    assert inside == ["run()", "n.was(2)"]
    assert "Output that tells the answer: How many?" in cells[2]["source"]


def test_what_explains_an_answer_goes_into_its_fold_and_the_next_subject_does_not():
    cells = folded(code("n.was(2)", CARD), text("Two lines.\n\n## Next\n\nMore."))
    inside = [c["source"] for c, fold in zip(cells, within_folds(cells)) if fold]
    assert inside == ["n.was(2)", "Two lines."]
    assert cells[-1]["source"] == "## Next\n\nMore."
    assert len({cell["id"] for cell in cells[1:]}) == len(cells) - 1


@pytest.mark.parametrize(
    ("page", "parts"),
    [
        ("One.\n\nTwo.", ("One.", "Two.")),
        ("One.", ("One.", "")),
        ("## Head\n\nOne.", ("", "## Head\n\nOne.")),
        ("So:\n\n```\na\n\nb\n```\n\nEnd.", ("So:\n\n```\na\n\nb\n```", "End.")),
        ("<details>\n\nOne.", ("", "<details>\n\nOne.")),
        ("Three:\n\n1. a\n2. b\n\nEnd.", ("Three:\n\n1. a\n2. b", "End.")),
    ],
)
def test_the_first_paragraph_takes_along_what_it_announces(page, parts):
    assert folds.first_paragraph(page) == parts


def test_a_question_that_was_not_run_is_named():
    asks = code('n = cl.guess("00-lines", "How many?", 1, 2)')
    with pytest.raises(BookError, match="00-lines has no stored output"):
        folds.with_answers([asks], sentences)


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_output_from_a_question_to_its_answer_stands_open(lesson):
    notebook = sources.chapter(lesson, LINKS)
    cells = notebook["cells"]
    pages = ["".join(map(outputs.html_of, c.get("outputs", []))) for c in cells]
    inside = within_folds(cells)
    asked = sum('class="guess"' in page for page in pages)
    assert least_guesses(notebook) <= asked <= 8
    # the card of an outcome
    cards = [fold for fold, page in zip(inside, pages) if "border-left:4px" in page]
    assert cards and all(cards)
    assert not any("Run this cell" in page for page in pages)
    assert not any(inside[-2:])  # each fold is closed


def test_a_stored_question_reads_as_the_course_writes_it():
    stored = json.loads((contents.ROOT / LESSONS[0]).read_text("utf-8"))["cells"]
    (asks,) = (cell for cell in stored if cell["id"] == "lines")
    question = Guess("00-lines", "How many lines will you see?", (1, 2, 4))
    (asked,) = folds.with_answers([asks | {"source": "".join(asks["source"])}], dict)
    page = outputs.html_of(asked["outputs"][0])
    assert question.question in page
    assert all(f"<li>{option}</li>" in page for option in question.options)


# --- outputs


def test_html_passes_unchanged_with_its_script():
    scene = '<div><img alt="still"></div><script>(x => { x < 1 && "</i>" })(0)</script>'
    assert outputs.shown(outputs.page(scene)) == outputs.page(scene)


def test_a_panel_says_where_its_sliders_are():
    page = "<span>Run this cell to get its sliders.</span><br><img>"
    shown = outputs.html_of(outputs.shown(outputs.page(page)))
    assert shown == f"<span>{outputs.MOVES}</span><br><img>"


def test_an_error_keeps_its_colours_as_those_of_a_theme():
    lines = ["\x1b[1mrank 1\x1b[0m <b>", "\x1b[38;5;28;01mraise\x1b[39;00m \x1b[31mE"]
    error = {"output_type": "error", "traceback": lines}
    page = outputs.html_of(outputs.shown(error))
    assert '<span class="ansi-bold">rank 1</span> &lt;b&gt;' in page
    assert '<span class="ansi-green-intense-fg ansi-bold">raise</span>' in page
    assert '<span class="ansi-red-fg">E' in page and "style=" not in page


# --- exercises


def test_hints_are_folded_below_their_check():
    cells = [code("def f(): ..."), code('cl.check("4.1", f)'), text("Next.")]
    _, _, hints, _ = folds.with_hints(cells, lambda name: [f"Of {name}", "`more`"])
    first, second = hints["source"].split("</details>")[:2]
    assert "<summary>Hint 1 of 2</summary>\n\nOf 4.1\n" in first
    assert "<summary>Hint 2 of 2</summary>\n\n`more`\n" in second


def test_solutions_are_not_in_the_book():
    assert not any("solutions" in place for place in contents.places())


# --- links


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("README.md", "docs/setup.md", "docs/setup.md"),
        ("docs/faults.md", "../README.md#start", "../index.md#start"),
        ("docs/setup.md", "exercises.md#a", "exercises.md#a"),
        ("notebooks/00_start_here.ipynb", "../docs/faults.md", "../docs/faults.md"),
        ("docs/exercises.md", "../solutions", f"{ADDRESS}/blob/HEAD/solutions"),
        (
            "notebooks/05_shared_tensors.ipynb",
            "scripts/hogwild.py",
            f"{ADDRESS}/blob/HEAD/notebooks/scripts/hogwild.py",
        ),
        ("docs/setup.md", "https://pytorch.org/a", "https://pytorch.org/a"),
        ("docs/faults.md", "#it-hangs", "#it-hangs"),
    ],
)
def test_a_link_stays_in_the_book_or_leads_to_the_repository(page, link, target):
    assert LINKS.rewritten(f"[a]({link})", page) == f"[a]({target})"
    html = LINKS.rewritten(f'<details><a href="{link}">a</a></details>', page)
    assert html == f'<details><a href="{target}">a</a></details>'


def test_links_in_code_stay_as_they_are():
    page = "`[a](x.md)` and\n\n```\n[a](y.md)\n```\n"
    assert LINKS.rewritten(page, "README.md") == page


def test_a_link_to_nothing_is_named_with_its_page():
    with pytest.raises(BookError, match="docs/setup.md links to gone.md, and there"):
        LINKS.rewritten("[a](gone.md)", "docs/setup.md")


def test_every_page_of_docs_is_in_the_book_once():
    chapters = [path for part in contents.parts().values() for path in part]
    pages = {f"docs/{path.name}" for path in (contents.ROOT / "docs").glob("*.md")}
    assert pages < set(chapters) and len(chapters) == len(set(chapters))


def test_the_front_page_is_the_readme_and_says_that_nothing_runs():
    page = sources.page("# Title\n\nMore.\n", "README.md", LINKS)
    assert page.startswith("# Title\n\n```{note}") and page.endswith("\n\nMore.\n")
    assert f"[course itself]({ADDRESS})" in page


# --- the names of the package


def test_a_name_has_its_signature_and_its_text():
    def launch(fn, /, *args, world_size: "int" = None, answer=...) -> "Results":  # noqa: F821
        """Run it. See https://pytorch.org/x, too.

        Errors: `UsageError` if not.
        """

    page = names.page({"cl.launch": launch})
    assert "## cl.launch\n" in page
    assert "cl.launch(fn, /, *args, world_size=None, answer=...)\n" in page
    assert "<https://pytorch.org/x>, too.\n\n**Errors:** `UsageError` if not." in page


def test_a_class_has_its_members_and_an_error_no_signature():
    class Trace:
        """Events."""

        @property
        def span(self):
            """Return seconds."""

        def select(self, rank=None):
            """Return a part.

            It stays.
            """

        def _own(self):
            """Hidden."""

    page = names.page({"cl.Trace": Trace, "cl.Bad": type("Bad", (Exception,), {})})
    assert "- `span`: Return seconds.\n" in page
    assert "- `select(rank=None)`: Return a part.\n  It stays." in page
    assert "Hidden" not in page and "cl.Bad(" not in page


# --- the checks of what was built


def built(folder, **pages):
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>")
    return checks.faults(folder)


def test_links_that_lead_somewhere_are_no_faults(tmp_path):
    links = '<a href="b.html#there">b</a> <a href="#own">c</a> <img src="data:,">'
    away = '<a href="https://pytorch.org">d</a> <a href="?q=1">e</a><p id="own">'
    assert built(tmp_path, a=links + away, b='<h2 id="there">x</h2>') == []


def test_a_lost_page_and_a_lost_heading_are_named(tmp_path):
    links = '<a href="gone.html">b</a><a href="b.html#gone">c</a><img src="x.png">'
    assert built(tmp_path, a=links, b="") == [
        "a.html links to gone.html, and there is no such page or file",
        "a.html links to b.html#gone, and there is no such heading or anchor",
        "a.html links to x.png, and there is no such page or file",
    ]


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.org/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.org/x.css">',
        '<img src="http://cdn.org/x.png">',
        '<iframe src="https://cdn.org/"></iframe>',
        '<style>@import "https://cdn.org/x.css";</style>',
        '<p style="background: url(https://cdn.org/x.png)">',
    ],
)
def test_what_a_page_loads_from_a_network_is_named(tmp_path, tag):
    (fault,) = built(tmp_path, a=tag)
    assert fault.startswith("a.html loads ") and fault.endswith("from a network")


def test_a_font_from_a_network_is_named(tmp_path):
    (tmp_path / "x.css").write_text("@font-face { src: url('https://cdn.org/f') }")
    assert built(tmp_path) == ["x.css loads https://cdn.org/f from a network"]


# --- the command


def tool(folder, lines, status=0):
    """A program in place of Jupyter Book."""
    path = folder / "tool"
    path.write_text(f"#!{sys.executable}\nprint({lines!r})\nraise SystemExit({status})")
    path.chmod(0o755)
    return path


def test_a_warning_of_jupyter_book_is_told(tmp_path):
    lines = "reading sources... [ 50%] a\r\x1b[91ma.md: WARNING: no title\x1b[0m\nok"
    with pytest.raises(BookError, match="stopped:\n.*a.md: WARNING: no title\n"):
        builder.build(tool(tmp_path, lines, 1), tmp_path, tmp_path)
    assert "ok" in (tmp_path / "build.log").read_text()


def test_a_book_that_was_built_is_where_jupyter_book_puts_it(tmp_path):
    pages = builder.build(tool(tmp_path, "done"), tmp_path, tmp_path)
    assert pages == tmp_path / "_build" / "html"


def test_without_jupyter_book_a_sentence_says_what_installs_it(capsys):
    arguments = ["--repository", ADDRESS, "--jupyter-book", "/nowhere/jupyter-book"]
    assert command.main(arguments) == 1
    assert "'make book' installs Jupyter Book" in capsys.readouterr().err
