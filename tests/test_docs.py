"""The pages: links lead somewhere, what they quote is there, what they show works."""

import json
import os
import re
import subprocess
import sys

import pytest

from benchmarks import quoted
from course_lib.__main__ import main
from tests import fault_table, pages

DOCS = pages.ROOT / "docs"
LINKS = [
    link for page in [*pages.PAGES, *pages.NOTEBOOKS] for link in pages.links(page)
]


@pytest.mark.parametrize("link", sorted(set(LINKS)), ids=str)
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(link):
    assert link.target.exists() and link.target.is_relative_to(pages.ROOT)
    assert not link.anchor or link.anchor in pages.anchors(link.target)


def test_links_are_found_in_tables_pictures_folds_and_notebooks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "| [a](one.md#two-three) |\n|---|\n| ![b](b.png) |\n\n"
        '<details><a href="c.md">c</a></details>\n\n[d](https://d.org) [e](#here)\n'
    )
    found = [(link.target.name, link.anchor) for link in pages.links(page)]
    assert found == [
        *[("one.md", "two-three"), ("b.png", ""), ("c.md", "")],
        ("page.md", "here"),
    ]
    assert {link.page.suffix for link in LINKS} == {".md", ".ipynb"}


def test_headings_are_spelt_as_github_does(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# What `cl.launch` does\n\n## Copy, and *updates*\n")
    assert pages.anchors(page) == {"what-cllaunch-does", "copy-and-updates"}


def test_symptoms_of_ddp_are_shown_in_cells_that_are_there():
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    part = page.partition("## DDP in practice, symptom by symptom")[2].partition(
        "\n## "
    )[0]
    rows = re.findall(r"\| (04[bcd]) ((?:`[\w-]+`(?:, )?)+) \|$", part, re.MULTILINE)
    shown = {
        (lesson, cell)
        for lesson, cells in rows
        for cell in re.findall(r"`(.+?)`", cells)
    }
    there = {
        (path.name[:3], cell["id"])
        for path in (pages.ROOT / "notebooks").glob("04[bcd]_*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    }
    assert len(rows) == part.count("\n| ") - 1 >= 18
    assert shown <= there


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_each_page_can_be_reached_from_the_readme(page):
    found, new = set(), {pages.README}
    while new:
        found |= new
        targets = {link.target for one in new for link in pages.links(one)}
        new = {target for target in targets if target.suffix == ".md"} - found
    assert page in found


TEXTS = "\n".join(page.read_text(encoding="utf-8") for page in pages.PAGES)
MADE = {*re.findall(r"(?:^|`)(?:\w+=\S+ )*make ([a-z-]+)", TEXTS, re.M)}
CALLED = {*re.findall(r"python -m course_lib (\w+)", TEXTS)}


@pytest.mark.parametrize("command", sorted(MADE))
def test_a_command_of_make_that_a_page_names_is_there_and_explained(command):
    listed = (pages.ROOT / "Makefile").read_text()
    assert re.search(rf"^{command}:.* ## .", listed, re.M)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_a_command_of_the_package_that_a_page_names_explains_itself(name, capsys):
    with pytest.raises(SystemExit, match="^0$"):
        main([name, "--help"])
    assert f"python -m course_lib {name}" in capsys.readouterr().out


def test_pages_name_many_commands():
    assert {"lab", "test", "grade", "book"} <= MADE and {"work", "run"} <= CALLED


def test_the_readme_is_one_screen():
    assert len(pages.texts(pages.README)[0].splitlines()) <= 80


def test_the_readme_has_the_two_commands():
    (commands,) = pages.code(pages.README, "bash")
    assert [line[:9] for line in commands.splitlines()] == ["make lab ", "make test"]


def test_the_readme_leads_to_each_lesson():
    targets = {link.target for link in LINKS if link.page == pages.README}
    lessons = {*(pages.ROOT / "notebooks").glob("*.ipynb")}
    assert lessons <= targets, "write its table again: make pages"


def test_the_table_of_faults_has_a_row_for_each_that_is_tested():
    text = (DOCS / "faults.md").read_text(encoding="utf-8")
    numbers = [int(row) for row in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert numbers == [*range(1, fault_table.ROWS + 1)]


def told(page, sentence):
    """True if a page has this sentence, wherever its lines break."""
    return sentence in " ".join(pages.texts(DOCS / f"{page}.md")[0].split())


@pytest.mark.parametrize("page", quoted.PAGES, ids=lambda page: page.stem)
def test_a_number_that_a_page_quotes_is_one_of_a_table(page):
    text = page.read_text(encoding="utf-8")
    quoted.filled(text)  # raises for a name that no table has
    # there Markdown takes the line for HTML
    assert not re.search(r"^\s*<!--", text, re.MULTILINE)


def test_a_quoted_number_is_filled_in_behind_its_name(monkeypatch):
    monkeypatch.setattr(quoted, "_values", lambda table: {"warm": f"1.5 of {table}"})
    text = "take <!--launching.warm-->1,027 ms, not 3 <!-- or so -->"
    assert quoted.filled(text) == (
        "take <!--launching.warm-->1.5 of launching ms, not 3 <!-- or so -->"
    )


@pytest.mark.faults
@pytest.mark.parametrize("level", ["OFF", "DETAIL"])
def test_the_first_aid_finds_the_lines_of_its_example(tmp_path, level):
    codes = pages.code(DOCS / "faults.md", "python")
    (source,) = [code for code in codes if "# hang.py" in code]
    quick = source.replace("minutes=2", "seconds=15").replace("later(60", "later(2")
    assert quick.count("\n") == source.count("\n") and quick != source
    (tmp_path / "hang.py").write_text(quick)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "hang.py"],
        cwd=tmp_path,
        env=os.environ | {"TORCH_DISTRIBUTED_DEBUG": level},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode
    if level == "DETAIL":
        assert "Detected mismatch between collectives on ranks." in done.stderr
        assert "Rank 0 is running collective:" in done.stderr
        assert "ALLREDUCE" in done.stderr and "BARRIER" in done.stderr
    for line, call in ((9, "all_reduce"), (10, "barrier")):
        assert told("faults", f"in line {line}, `{call}`")
        assert re.search(rf'hang.py", line {line}\b', done.stderr)
        assert re.search(rf"in {call}$", done.stderr, re.MULTILINE)
