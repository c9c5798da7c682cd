"""The benchmark of lessons 06 and 06b: studies, the plain loop beside them, files."""

import json
import os

import pytest
import torch

import course_lib as cl
from benchmarks import __main__, batch_size, report
from course_lib.studies import cache, stacked, study

# torch's own, when DDP is imported
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("COURSE_LIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def lesson():
    """What the lesson defines; the random state of other tests stays as it was."""
    with torch.random.fork_rng(devices=[]):
        return batch_size.cells(*batch_size.CELLS)


@pytest.fixture
def small(monkeypatch):
    """The studies with two batch sizes, two rates, two seeds."""
    monkeypatch.setattr(batch_size, "SIZES", (64, 1024))
    monkeypatch.setattr(batch_size, "RATES", (0.25, 0.5))
    monkeypatch.setattr(batch_size, "OTHERS", {"Adam": (0.03, 0.06)})
    monkeypatch.setattr(batch_size, "SEEDS", 2)


@pytest.fixture
def quick(monkeypatch):
    """Every sweep with two seeds and thirty steps, to losses soon met."""
    sweep = batch_size._sweep

    def few(lesson, data, setting, **_):
        return sweep(lesson, data, setting, seeds=2, steps=30)

    monkeypatch.setattr(batch_size, "_sweep", few)
    monkeypatch.setattr(batch_size, "LEVELS", (2.25, 2.2))
    monkeypatch.setattr(batch_size, "WARM_UP", {"seeds": 5, "steps": 3})


def test_cells_of_the_lesson_define_data_and_model_and_draw_nothing(lesson):
    from matplotlib import pyplot

    assert len(lesson["train_set"]) + len(lesson["test_set"]) == 1797
    model = lesson["make"](3)
    assert model(lesson["images"]).shape == (len(lesson["train_set"]), 10)
    assert lesson["make"].__module__ == "__main__"
    assert pyplot.get_fignums() == []


def test_both_lessons_train_the_same_network_on_the_same_digits(lesson, monkeypatch):
    first = batch_size.LESSON.with_name("06_batch_size.ipynb")
    monkeypatch.setattr(batch_size, "LESSON", first)
    with torch.random.fork_rng(devices=[]):
        other = batch_size.cells("setup", "data")
        assert repr(other["make"](3)) == repr(lesson["make"](3))
        pairs = zip(other["make"](3).parameters(), lesson["make"](3).parameters())
        assert all(torch.equal(*pair) for pair in pairs)
    assert torch.equal(other["images"], lesson["images"])


def test_an_unknown_cell_is_an_error():
    with pytest.raises(KeyError, match="lunch"):
        batch_size.cells("lunch")


@pytest.mark.parametrize("size", [8, 1024])
def test_the_plain_loop_ends_with_the_errors_of_stacked_models(lesson, size):
    sets = [lesson[name].tensors for name in ("train_set", "test_set")]
    plan = stacked.Plan(size, (0.1, 0.25, 0.5), 2, 300, ("val_error", 0.2))
    runs = stacked.train(lesson["make"], sets, plan)
    ended = runs.ended[:, 0].tolist()
    found = batch_size.one_by_one(lesson["make"], sets, plan, ended=ended)
    # a digit or two may lie on the border between two classes
    one = 1 / len(lesson["test_set"])
    assert found == pytest.approx(runs.final["val_error"][:, 0].tolist(), abs=2.1 * one)
    assert runs.reached.any()


def test_both_ways_have_a_row_for_each_batch_size_and_one_for_all(lesson, small):
    threads = torch.get_num_threads()
    rows = batch_size.both_ways(lesson, 2)
    assert [row[0] for row in rows] == ["64", "1,024", "all"]
    assert all(len(row) == len(batch_size._HEAD) for row in rows)
    assert torch.get_num_threads() == threads


def test_the_time_of_all_batch_sizes_is_their_sum(lesson, small, monkeypatch):
    times = {64: (6.0, 2.0), 1024: (4.0, 3.0)}
    monkeypatch.setattr(batch_size, "_race", lambda lesson, size: times[size])
    rows = batch_size.both_ways(lesson, 3)
    assert rows[0] == ["64", "6.0 s (6.0 to 6.0)", "2.0 s (2.0 to 2.0)", "3.0 ×"]
    assert rows[2] == ["all", "10.0 s (10.0 to 10.0)", "5.0 s (5.0 to 5.0)", "2.0 ×"]


def test_generalization_outlives_its_run_as_json(lesson, quick):
    gap = batch_size.generalization(lesson)
    assert json.loads(study.rows_of(gap)) == gap
    assert {
        "where",
        "1024 digits",
        "256 digits",
        "wrong labels",
        "warm-up",
    } == gap.keys()
    assert all(len(losses) == 5 for losses in gap["warm-up"].values())
    for name, count in (("1024 digits", "1,024"), ("256 digits", "256")):
        settings = ["batch 8, rate 0.25", f"all {count}, rate 0.25"]
        assert list(gap[name]) == [*settings, f"all {count}, warm-up to 1"]
        for row in gap[name].values():
            assert list(row) == ["2.25", "2.2"]
            assert {len(errors) for errors in row.values()} == {2}
    for row in gap["wrong labels"].values():
        assert len(row["steps"]) == len(row["val_error"]) == len(row["train_loss"])


def test_between_two_looks_at_a_curve_lies_a_straight_line():
    losses = torch.tensor([[2.0, 3.0], [1.0, 2.0], [3.0, 1.0]])
    errors = torch.tensor([[10.0, 30.0], [6.0, 20.0], [9.0, 12.0]])
    assert batch_size.at_loss(1.5, losses, errors).tolist() == [8.0, 16.0]
    assert batch_size.at_loss(1.0, losses, errors).tolist() == [6.0, 12.0]


def test_a_report_comes_with_the_studies_of_the_lessons(folder, small, monkeypatch):
    monkeypatch.setattr(batch_size, "both_ways", lambda *_: [["all", "2", "1", "2 ×"]])
    monkeypatch.setattr(batch_size, "generalization", lambda lesson: {"where": "here"})
    told = batch_size.run(1)
    words = " ".join(told.split())
    assert "plain SGD has 8 trainings: 2 batch sizes, 2 rates, 2 seeds" in words
    texts = {path.name: text for path, text in told.files.items()}
    names = {"steps_to_target.json": (0.25, 0.5), "steps_adam.json": (0.03, 0.06)}
    assert texts.keys() == {*names, "generalization.json"}
    for name, rates in names.items():
        folder.parent.joinpath("study").write_text(texts[name])
        found = cl.Study.load(folder.parent / "study")
        assert found.rates == rates
        assert list(found.steps) == [64, 1024] and len(found.best()) == 2
        assert found.where.startswith("measured on 20")
    assert not folder.exists()


@pytest.mark.parametrize("before", [None, "/somewhere"])
def test_nothing_that_is_kept_is_found_in_a_benchmark(monkeypatch, before):
    monkeypatch.delenv("COURSE_LIB_CACHE")
    if before:
        monkeypatch.setenv("COURSE_LIB_CACHE", before)
    with pytest.raises(KeyboardInterrupt), batch_size._nothing_kept():
        assert list(cache.folder().iterdir()) == []
        raise KeyboardInterrupt
    assert os.environ.get("COURSE_LIB_CACHE") == before


def test_a_report_is_saved_with_its_files(tmp_path, monkeypatch, capsys):
    told = report.Report("# A title\n")
    told.files = {tmp_path / "study.json": "[ 1 ]\n"}
    monkeypatch.setitem(__main__.BENCHMARKS, "batch_size", lambda rounds: told)
    monkeypatch.setattr(__main__, "__file__", str(tmp_path / "__main__.py"))
    monkeypatch.setattr(__main__.quoted, "main", lambda: None)
    assert __main__.main(["batch_size"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert __main__.main(["batch_size", "--save"]) == 0
    assert (tmp_path / "batch_size.md").read_text() == "# A title\n"
    assert (tmp_path / "study.json").read_text() == "[ 1 ]\n"
