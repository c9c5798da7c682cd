"""Fill in the numbers that pages quote from the tables of benchmarks: `make pages`.

On a page the name of a number stands before it: `<!--launching.warm-->27 ms`. Who makes
a table anew by `--save` has them filled in, too.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.report import ROOT

# head.md becomes docs/virtual-gpus.md
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "tests/capabilities/head.md"]
_PLACE = re.compile(r"(<!--(\w+)\.(\w+)-->)([\d.,-]*\d)")


def filled(text: str) -> str:
    """A page with the numbers of today's tables.

    Errors: `KeyError` for a number that no table has.
    """
    return _PLACE.sub(lambda found: found[1] + _values(found[2])[found[3]], text)


def main() -> None:
    """Write the pages whose numbers have changed, and name them."""
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        if (after := filled(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))


@cache
def _values(name):
    """The numbers that pages may quote from a table, by their names."""
    text = Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    return {key: str(value) for key, value in _READERS[name](text).items()}


def _lines(text):
    """The cells of each row of all tables of a report."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]


def _rows(text):
    """The rows of a report by their first cells."""
    return {first: cells for first, *cells in _lines(text) if cells}


def _number(cell):
    return float(cell.split()[0].replace(",", ""))


def _launching(text):
    rows = _rows(text)
    (day,) = re.findall(r"^(\d{4}-\d\d-\d\d), Python", text, re.MULTILINE)
    cells = {
        "warm": rows["**`course_lib.launch`, warm**"][0],
        "cold": rows["`course_lib.launch`, cold (the first launch)"][0],
        "spawn": rows["`torch.multiprocessing.spawn`"][1],
        "torchrun": rows["`torchrun --standalone`"][1],
    }
    whole = {name: f"{_number(cell):.0f}" for name, cell in cells.items()}
    notebook = _number(rows["accelerate `notebook_launcher`"][1])
    cold = _number(cells["cold"])
    firsts = {  # against a first launch, not a later one
        "spawn_cold": _number(rows["`torch.multiprocessing.spawn`"][0]) / cold,
        "torchrun_cold": _number(rows["`torchrun --standalone`"][0]) / cold,
    }
    firsts = {name: f"{ratio:.1f}" for name, ratio in firsts.items()}
    return {"day": day, "notebook": f"{notebook:.1f}", **whole, **firsts}


def _all_reduce(text):
    lines = _lines(text)
    two, four = (next(cells for cells in lines if cells[0] == n) for n in "24")
    *_, root, _, model = next(c for c in lines[::-1] if c[:2] == ["4", "64 MiB"])
    return {
        "worst_of_two": f"{_number(two[4]):.0f}",
        "within": two[5].split()[0],
        "worst_of_four": f"{_number(four[4]):.0f}",
        "root": root.split()[0],
        "root_model": model.split()[0],
    }


def _scaling(text):
    lines = _lines(text)
    drag = r"^\| [\d.]+ \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$"
    found, perfect = re.findall(r"median error (\d+)%.*?(\d+) of (\d+)\s", text)
    worst = max(abs(_number(cells[7])) for cells in lines if "(predicted" in cells[0])
    vgg, ready = (cells[2:4] for cells in lines if cells[0].startswith("VGG-16"))
    bert, bucket = (
        cells[2:4]
        for cells in lines
        if cells[0].startswith("BERT-base, float32") and cells[1] == "32"
    )
    shares = [share.removesuffix("%") for share in (*vgg, ready[1], *bert, bucket[1])]
    names = ("vgg", "vgg_model", "vgg_ready", "bert", "bert_model", "bert_bucket")
    return {
        "worst": f"{worst:.0f}",
        "drag": re.search(drag, text, re.MULTILINE)[1],
        **dict(zip(("median", "within", "points"), found)),
        "perfect": perfect[1],
        **dict(zip(names, shares)),
    }


def _meter(text):
    rows = _rows(text)
    shares = {"few": rows["100"][-1], "many": rows["1,000"][-1]}
    return {name: share.removesuffix(" %") for name, share in shares.items()}


def _recording(text):
    ratios = [cells[-1] for cells in _lines(text) if cells[-1].endswith("×")]
    return dict(zip(("small", "large", "launch"), map(_number, ratios)))


def _virtual(text):
    lines = _lines(text)
    more = [_number(cells[-1]) for cells in lines if cells[-1].endswith("µs")]
    steps = [_number(cells[3]) for cells in lines if "lesson 01" in cells[0]]
    operators = {"least": f"{min(more):.0f}", "most": f"{max(more):.0f}"}
    return operators | dict(zip(("deep", "wide"), (f"{step:.2f}" for step in steps)))


def _scenes(text):
    scenes = [cells for name, cells in _rows(text).items() if name[0].isdigit()]
    sizes = sorted(int(cells[0]) for cells in scenes)
    found = [re.findall(r"\(([\d.]+)\)", cell) for cells in scenes for cell in cells]
    longest = max(float(number) for numbers in found for number in numbers)
    return {"small": sizes[0], "large": sizes[-1], "longest": math.ceil(longest)}


def _batch_size(text):
    seconds = re.search(r"`cl.steps_to_target` took (\d+) s", text)[1]
    return {"seconds": seconds, "faster": _rows(text)["all"][-1].split()[0]}


def _checks(text):
    names = ("right", "wrong", "hints")
    counts = [int(cell.split()[0]) for cell in _rows(text)["all"][:3]]
    values = dict(zip(names, map("{:,}".format, counts)))
    return values | {"both": f"{counts[0] + counts[1]:,}"}


def _grading(text):
    rows = re.findall(r"^\| `course_lib grade -j 1` \|.* \| ([\d.]+) × \| ", text, re.M)
    return dict(zip(("plain", "ranks"), rows))


# fmt: off
_FUNCTIONS = (
    _all_reduce, _batch_size, _checks, _grading, _launching, _meter, _recording,
    _scaling, _scenes, _virtual,
)
# fmt: on
_READERS: dict[str, Callable] = {
    function.__name__.removeprefix("_"): function for function in _FUNCTIONS
}


if __name__ == "__main__":
    main()
