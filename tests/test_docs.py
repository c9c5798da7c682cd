"""The pages: links lead somewhere, tables and numbers are those of today."""

import math
import os
import re
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_each_page_can_be_reached_from_the_readme(page):
    found, new = set(), {pages.README}
    while new:
        found |= new
        targets = {link.target for one in new for link in pages.links(one)}
        new = {target for target in targets if target.suffix == ".md"} - found
    assert page in found


def test_the_readme_is_one_screen():
    assert len(pages.texts(pages.README)[0].splitlines()) <= 80


def test_the_readme_has_the_two_commands():
    (commands,) = pages.code(pages.README, "bash")
    assert [line[:9] for line in commands.splitlines()] == ["make lab ", "make test"]


def test_the_readme_lists_the_lessons_as_they_are():
    shown = pages.table(pages.texts(pages.README)[0], pages.TOP)
    assert shown == pages.lessons(), "write it again: python -m tests.pages"


def test_the_table_of_faults_has_a_row_for_each_that_is_tested():
    text = (DOCS / "faults.md").read_text(encoding="utf-8")
    numbers = [int(row) for row in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert numbers == [*range(1, fault_table.ROWS + 1)]


def told(page, sentence):
    """True if a page has this sentence, wherever its lines break."""
    return sentence in " ".join(pages.texts(DOCS / f"{page}.md")[0].split())


def table(name):
    """A page of benchmarks/: its text, and the cells of each row by the first one."""
    text = (pages.ROOT / f"benchmarks/{name}.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return text, {first: cells for first, *cells in rows if cells}


def number(cell):
    return float(cell.split()[0].replace(",", ""))


def test_how_quick_a_launch_is_stands_in_its_table():
    text, rows = table("launching")
    (day,) = re.findall(r"^(\d{4}-\d\d-\d\d), Python", text, re.MULTILINE)
    warm = number(rows["**`course_lib.launch`, warm**"][0])
    cold = number(rows["`course_lib.launch`, cold (the first launch)"][0])
    notebook = number(rows["accelerate `notebook_launcher`"][1])
    spawn = number(rows["`torch.multiprocessing.spawn`"][1])
    torchrun = number(rows["`torchrun --standalone`"][1])
    assert told("launching", f"take {warm:.0f} ms from the call to the results")
    assert told("launching", f"The first launch takes {cold:.0f} ms")
    assert told("launching", f"is {notebook:.1f} times less than accelerate's")
    assert told("launching", f"{spawn:.0f} times less than `torch.multiprocessing")
    assert told("launching", f"{torchrun:.0f} times less than `torchrun`")
    assert told("launching", f"(medians on two cores, {day};")


def test_how_well_alpha_and_beta_tell_an_all_reduce_stands_in_their_table():
    lines = [
        line.strip("| ").split(" | ") for line in table("all_reduce")[0].split("\n")
    ]
    two, four = (next(cells for cells in lines if cells[0] == n) for n in "24")
    *_, root, _, model = next(c for c in lines[::-1] if c[:2] == ["4", "64 MiB"])
    assert told("measurements", f"the worst is off by {number(two[4]):.0f} % (median")
    assert told("measurements", f"{two[5]} launches stay within 20 %")
    assert told(
        "measurements", f"cores the worst size is off by {number(four[4]):.0f} %"
    )
    assert told("measurements", f"takes {root[:-2]} times as long as gloo's ring")
    assert told("measurements", f"by the model {model[:-2]} times")


def test_how_well_steps_on_many_gpus_are_modelled_stands_in_its_table():
    text, _ = table("scaling")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    worst = max(abs(number(cells[7])) for cells in lines if "(predicted" in cells[0])
    (drag,) = re.findall(r"^\| [\d.]+ \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$", text, re.M)
    assert told("measurements", f"an error of at most {worst:.0f} % (the goal")
    assert told("measurements", f"beside backward makes backward {drag} s longer")
    (found, perfect) = re.findall(r"median error (\d+)%.*?(\d+) of (\d+)\s", text)
    (median, within, points), (_, always, _) = found, perfect
    assert told("measurements", f"Of {points} published efficiencies {within} are")
    assert told("measurements", f"with a median error of {median} %. That")
    assert told("measurements", f"100 % to all is within 15 % {always} times")
    (vgg,) = (cells[2:4] for cells in lines if cells[0].startswith("VGG-16"))
    bert, one_bucket = (
        cells[2:4]
        for cells in lines
        if cells[0].startswith("BERT-base, float32") and cells[1] == "32"
    )
    shares = [share.replace("%", " %") for share in (*vgg, *bert, one_bucket[1])]
    assert told(
        "measurements", "512 GPUs {} were published, and {} modelled".format(*shares)
    )
    assert told(
        "measurements", "32 GPUs {} were published, and {} modelled".format(*shares[2:])
    )
    assert told("measurements", f"With one bucket it is {shares[4]}.")


def test_what_the_meter_adds_stands_in_its_table():
    few, many = (table("meter")[1][count][-1] for count in ("100", "1,000"))
    assert told("collectives", f"a launch with 100 messages takes {few} longer")
    assert told("collectives", f"one with 1,000 messages {many}.")


def test_what_recording_costs_stands_in_its_table():
    _, rows = table("recording")
    ratios = [cells[-1] for cells in rows.values() if cells[-1].endswith("×")]
    small, large, launch = map(number, ratios)
    assert told(
        "launching",
        f"the steps of a small network take {small} times as long, those of a network "
        f"of 16.8 MB {large} times, and a launch with one all-reduce {launch} times",
    )


def test_what_virtual_gpus_cost_stands_in_its_table():
    _, rows = table("virtual")
    more = [number(cells[-1]) for cells in rows.values() if cells[-1].endswith("µs")]
    steps = [number(cells[2]) for name, cells in rows.items() if "lesson 01" in name]
    cost = f"An operator costs {min(more):.0f} to {max(more):.0f} µs more than on the"
    assert told("virtual-gpus", cost) and len(steps) == 2
    assert told("virtual-gpus", "take {} and {} times as long".format(*steps))


def test_how_large_and_quick_scenes_are_stands_in_their_table():
    _, rows = table("scenes")
    scenes = [cells for name, cells in rows.items() if name[0].isdigit()]
    small, *_, large = sorted(int(cells[0]) for cells in scenes)
    found = (re.findall(r"\(([\d.]+)\)", cell) for cells in scenes for cell in cells)
    longest = max(float(number) for numbers in found for number in numbers)
    assert told("lessons", f"have {small} to {large} kB")
    assert told("lessons", f"took longer than {math.ceil(longest)} ms")


def test_how_long_a_study_takes_stands_in_its_table():
    text, rows = table("batch_size")
    (seconds,) = re.findall(r"`cl.steps_to_target` took (\d+) s", text)
    assert told("studies", f"takes {seconds} s for it on two cores")
    assert told("studies", f"is {rows['all'][-1].split()[0]} times as fast as a plain")


def test_what_checks_have_met_stands_in_its_table():
    right, wrong, hints, *_ = table("checks")[1]["all"]
    (right, *_), (wrong, *_), (hints, *_) = map(str.split, (right, wrong, hints))
    both = int(right) + int(wrong)
    assert told("exercises", f"Another {both:,} answers were written")
    assert told("exercises", f"All {right} right ones are accepted and all {wrong}")
    assert told("exercises", f"{hints} of them with a hint that names what differs")


def test_how_quick_grading_is_stands_in_its_table():
    text, _ = table("grading")
    rows = re.findall(r"^\| `course_lib grade -j 1` \|.* \| ([\d.]+) × \| ", text, re.M)
    (plain, ranks) = map(float, rows)
    assert plain < 1 / 3 and ranks < 1 / 8
    told_plain = f"with three plain checks a notebook takes {plain:.2f} of the time"
    assert told("instructors", told_plain)
    assert told("instructors", f"with a two-rank check {ranks:.2f} of it")


@pytest.mark.faults
@pytest.mark.parametrize("level", ["OFF", "DETAIL"])
def test_the_first_aid_finds_the_lines_of_its_example(tmp_path, level):
    (source,) = pages.code(DOCS / "faults.md", "python")
    quick = source.replace("minutes=2", "seconds=8").replace("later(60", "later(2")
    assert quick.count("\n") == source.count("\n") and quick != source
    (tmp_path / "hang.py").write_text(quick)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "hang.py"],
        cwd=tmp_path,
        env=os.environ | {"TORCH_DISTRIBUTED_DEBUG": level},
        capture_output=True,
        text=True,
        timeout=120,
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
