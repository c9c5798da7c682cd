"""Studies over rates, seeds and batch sizes: kept while nothing changes, shared out."""

import contextlib
import io
import json
import signal
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import course_lib as cl
from course_lib.errors import LaunchError, LaunchInterrupted, UsageError
from course_lib.launching import launcher
from course_lib.studies import cache, stacked
from course_lib.studies import sweep as sweeps
from course_lib.system import host
from tests import kernels, trainings
from tests.leftovers import becomes
from tests.trainings import make

TRAIN, VALIDATION = trainings.digits()
TARGET = ("val_error", 0.4)
OPTIONS = {"batch_size": 16, "rates": (0.1, 0.3), "seeds": 2, "steps": 40}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of this test's own, for the ranks that it launches, too."""
    monkeypatch.setenv("COURSE_LIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trained(monkeypatch):
    """The plans that were not found on disk."""
    plans, train = [], stacked.train

    def counted(make, data, plan, **options):
        plans.append(plan)
        return train(make, data, plan, **options)

    monkeypatch.setattr(stacked, "train", counted)
    return plans


def sweep(make=make, train=TRAIN, validation=VALIDATION, **options):
    return cl.sweep(make, train, validation, **OPTIONS | options)


def study(make=make, train=TRAIN, validation=VALIDATION, **options):
    known = {"rates": (0.1, 0.3), "seeds": 2, "steps": 300, "target": TARGET}
    return cl.steps_to_target(make, train, validation, **known | options)


def changed(part, which, place, value):
    """A data set with another number in one place."""
    tensors = [tensor.clone() for tensor in part.tensors]
    tensors[which].view(-1)[place] = value
    return TensorDataset(*tensors)


# --- what is kept


def test_a_second_call_computes_nothing_and_gives_the_same(trained):
    one, two = sweep(target=TARGET), sweep(target=TARGET)
    assert len(trained) == 1
    assert one.plan == two.plan and repr(one) == repr(two)
    for part in ("curves", "final", "weights"):
        ours, theirs = getattr(one, part), getattr(two, part)
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert torch.equal(ours[name].nan_to_num(), theirs[name].nan_to_num())
    for part in ("steps", "ended", "reached"):
        assert torch.equal(getattr(one, part), getattr(two, part))


class Activated(nn.Module):
    """The parameters of `make`, with something else between them."""

    def __init__(self, seed, activation):
        super().__init__()
        self.layers, self.activation = make(seed), activation

    def forward(self, images):
        flat, first, _, last = self.layers
        return last(self.activation(first(flat(images))))


def activated(activation):
    return lambda seed: Activated(seed, activation)


def without_slope(hidden):
    """As ReLU, but the first layer learns nothing."""
    return hidden.detach().relu()


def frozen(seed):
    model = make(seed)
    model[1].weight.requires_grad_(False)
    return model


def rising(step):
    return 0.1 + 0.001 * step


CHANGES = {
    "a pixel": {"train": changed(TRAIN, 0, 5000, 0.5)},
    "a label": {"train": changed(TRAIN, 1, 127, 3)},
    "a pixel of the validation set": {"validation": changed(VALIDATION, 0, 0, 0.5)},
    "fewer data": {"train": TensorDataset(*(t[:-1] for t in TRAIN.tensors))},
    "a rate": {"rates": (0.1, 0.30001)},
    "the order of rates": {"rates": (0.3, 0.1)},
    "a schedule": {"rates": (0.1, rising)},
    "seeds": {"seeds": 3},
    "steps": {"steps": 41},
    "a target": {"target": TARGET},
    "batch size": {"batch_size": 17},
    "the weights": {"make": lambda seed: make(seed + 1)},
    "what is frozen": {"make": frozen},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_computed_again(trained, change):
    sweep()
    sweep(**change)
    assert len(trained) == 2


@pytest.mark.parametrize("activation", [torch.tanh, without_slope])
def test_a_model_of_the_same_parameters_that_computes_otherwise_trains(
    trained, activation
):
    relu = sweep(activated(torch.relu))
    other = sweep(activated(activation))
    assert len(trained) == 2
    assert not torch.equal(relu.final["val_loss"], other.final["val_loss"])


def test_a_model_that_differs_on_a_single_sample_trains(trained):
    odd = TRAIN.tensors[0].flatten(1).norm(dim=1).topk(2).values.mean().item()

    def clipped(hidden):
        return hidden.relu()

    class Picky(Activated):
        def forward(self, images):
            large = images.flatten(1).norm(dim=1, keepdim=True) > odd
            return super().forward(images) + large

    sweep(activated(clipped))
    sweep(lambda seed: Picky(seed, clipped))
    assert len(trained) == 2


def test_dropout_in_a_forward_is_refused(trained):
    with pytest.raises(UsageError, match="its outputs differ from call to call"):
        sweep(activated(nn.functional.dropout))
    assert not trained


def test_batch_sizes_and_rates_may_come_from_generators(trained):
    sizes, rates = (n for n in (16, 32)), (rate for rate in (0.1, 0.3))
    found = study(batch_sizes=sizes, rates=rates)
    assert list(found.steps) == [16, 32] and found.rates == (0.1, 0.3)


def test_another_target_or_schedule_is_computed_again(trained):
    sweep(target=TARGET)
    sweep(target=("val_error", 0.41))
    sweep(target=("val_loss", 0.4))
    sweep(rates=[rising])
    sweep(rates=[lambda step: rising(step) * (step != 39)])
    assert len(trained) == 5


def test_another_engine_or_torch_computes_again(trained, tmp_path, monkeypatch):
    sweep()
    newer = tmp_path / "stacked.py"
    with open(stacked.__file__, encoding="utf-8") as file:
        newer.write_text(file.read() + "# a change\n", encoding="utf-8")
    with monkeypatch.context() as changes:
        changes.setattr(stacked, "__file__", str(newer))
        sweep()
    monkeypatch.setattr(torch, "__version__", "9.9")
    sweep()
    assert len(trained) == 3


def test_the_same_numbers_written_another_way_are_found(trained):
    sweep(rates=[0.1, 0.3])
    sweep(rates=(0.1, 0.3), train=TensorDataset(*(t.clone() for t in TRAIN.tensors)))
    sweep(make=lambda seed: make(seed))
    assert len(trained) == 1


def test_a_folder_that_cannot_be_written_still_gives_results(folder, trained):
    folder.write_text("in the way")
    assert sweep().final.keys() == sweep().final.keys()
    assert len(trained) == 2
    assert set(study(batch_sizes=[16, 32]).steps) == {16, 32}


def test_a_cut_off_result_is_computed_again(folder, trained):
    sweep()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    sweep()
    sweep()
    assert len(trained) == 2
    assert [path] == list(folder.iterdir())


# --- the learner's state


def test_a_sweep_leaves_random_state_threads_and_gradients_alone(monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        one, before = make(0), torch.random.get_rng_state()
        sweep()
        sweep(lambda seed: one)
        assert torch.random.get_rng_state().equal(before)
        assert torch.get_num_threads() == 3
        assert all(p.grad is None and p.requires_grad for p in one.parameters())
    finally:
        torch.set_num_threads(threads)


def test_a_sweep_that_fails_leaves_them_alone_as_well(folder):
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()

    def fails(step):
        return 1 / (step - 3)

    with pytest.raises(ZeroDivisionError) as caught:
        sweep(rates=[fails])
    assert caught.value.__context__ is None
    assert torch.random.get_rng_state().equal(before)
    assert torch.get_num_threads() == threads
    assert not folder.exists()


def test_a_study_leaves_random_state_and_environment_alone(monkeypatch):
    state = torch.random.get_rng_state(), torch.get_num_threads()
    study(batch_sizes=[16, 32])
    assert torch.random.get_rng_state().equal(state[0])
    assert torch.get_num_threads() == state[1]


# --- what is refused


@pytest.mark.parametrize(
    "options, said",
    [
        ({"batch_size": 0}, "cannot take batches of 0 from 128 samples: choose 1 to"),
        ({"batch_size": 129}, "cannot take batches of 129 from 128 samples"),
        ({"batch_size": 16.0}, "cannot take batches of 16.0"),
        ({"batch_size": "16"}, "cannot take batches of '16'"),
        ({"rates": []}, "found 0 rates, 2 seeds, 40 steps; expected at least one"),
        ({"seeds": 0}, "found 2 rates, 0 seeds"),
        ({"steps": 0}, "2 seeds, 0 steps"),
        ({"optimizer": "RMSprop"}, "cannot train by 'RMSprop': choose one of SGD, m"),
        ({"target": ("test_error", 0.1)}, "cannot reach .'test_error', 0.1.: give a"),
        ({"target": "val_error"}, "with one of train_loss, train_error, val_loss"),
        ({"make": lambda seed: nn.BatchNorm2d(1)}, "it has buffers"),
        ({"make": lambda seed: nn.Dropout()}, "Dropout draws"),
        ({"train": torch.utils.data.Subset(TRAIN, [1])}, "on a Subset: expected Tens"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_runs(trained, options, said):
    with pytest.raises(UsageError, match=said):
        sweep(**options)
    assert trained == []


@pytest.mark.parametrize(
    "options, said",
    [
        ({"batch_sizes": []}, "found no batch sizes"),
        ({"batch_sizes": [16, 256]}, "cannot take batches of 256 from 128 samples"),
        ({"batch_sizes": [16], "rates": []}, "found 0 rates"),
        ({"batch_sizes": [16], "target": ("loss", 1)}, "cannot reach"),
    ],
)
def test_a_study_that_cannot_be_is_refused_before_ranks_start(
    monkeypatch, options, said
):
    monkeypatch.setattr(
        launcher, "run_request", lambda *_, **__: pytest.fail("started")
    )
    with pytest.raises(UsageError, match=said):
        study(**options)


def test_a_model_that_cannot_be_made_in_a_rank_is_one_clear_error():
    def make(seed):
        if seed == 0:  # which is made in this process, too
            return trainings.make(seed)
        raise RuntimeError("no such layer")

    said = "raised RuntimeError: no such layer\n(?s:.*)in make\n"
    with pytest.raises(LaunchError, match=said) as caught:
        study(make, batch_sizes=[16, 32])
    assert str(caught.value).count("RuntimeError: no such layer") == 1


# --- steps to a target


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A study of three batch sizes, and the sweeps of each of them, kept apart."""
    sizes, options = (8, 32, 128), {"rates": (0.001, 0.1, 0.4), "steps": 120}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_LIB_CACHE", str(tmp_path_factory.mktemp("study")))
        whole = study(batch_sizes=sizes, **options)
        files = sorted(path.name for path in cache.folder().iterdir())
        patch.setenv("COURSE_LIB_CACHE", str(tmp_path_factory.mktemp("sweeps")))
        own = {n: sweep(batch_size=n, target=TARGET, **options) for n in sizes}
        assert files == sorted(path.name for path in cache.folder().iterdir())
    return whole, own


def test_a_study_is_a_sweep_of_each_batch_size(found):
    whole, own = found
    assert list(whole.steps) == list(own) == [8, 32, 128]
    for size, runs in own.items():
        ended = runs.ended.where(runs.reached, torch.tensor(-1)).tolist()
        table = [[None if n < 0 else n for n in row] for row in ended]
        assert whole.steps[size] == table


def test_a_target_that_is_not_reached_is_none(found):
    whole, _ = found
    assert all(table[0] == [None, None] for table in whole.steps.values())
    assert all(None not in table[2] for table in whole.steps.values())


def test_each_rank_takes_its_share_of_the_batch_sizes(tmp_path):
    plans = [stacked.Plan(size, (0.1,), 1, 3) for size in (8, 16, 32, 64, 128)]
    given = (make, (TRAIN, VALIDATION), plans), str(tmp_path)
    shares = [set(sweeps._share(rank, 2, *given)) for rank in range(2)]
    assert shares == [{8, 32, 128}, {16, 64}]
    done = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert done == {"8", "16", "32", "64", "128"}


def test_a_study_is_found_again_by_its_ranks(folder):
    first = study(batch_sizes=[16, 32])
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert study(batch_sizes=[32, 16]) == first
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    assert len(times) == 2


def test_an_interrupt_keeps_the_batch_sizes_that_are_done(folder, monkeypatch, trained):
    monkeypatch.setattr(host, "usable_cores", lambda: 1)
    sizes = [128, 64, 32, 16, 8]
    options = {"steps": 800, "rates": (0.1, 0.2, 0.3), "target": ("val_error", -1)}

    def interrupt():
        assert becomes(lambda: list(folder.glob("*.pt")))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    said = "interrupted: [1-4] of 5 batch sizes are done and kept"
    with pytest.raises(LaunchInterrupted, match=said):
        study(batch_sizes=sizes, **options)
    watcher.join()
    done = len(list(folder.iterdir()))
    assert 1 <= done < len(sizes)
    assert list(folder.glob("*.part")) == []
    sweep(batch_size=sizes[0], **options)
    assert trained == []


def test_an_interrupted_sweep_says_so_in_one_line(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stacked, "train", interrupted)
    with pytest.raises(LaunchInterrupted, match="batches of 16 begin anew") as caught:
        sweep()
    assert caught.value.__suppress_context__


# --- a study


STUDY = cl.Study(
    ("val_error", 0.05),
    (0.25, 0.5),
    {
        16: [[900, 700], [1500, None]],
        64: [[10, 400], [90, 200]],
        1024: [[None, 5]] * 2,
    },
    where="measured on [a  table]",
)


def test_the_best_rate_is_that_of_the_fewest_steps_of_all_seeds():
    assert STUDY.best() == {16: (0.25, [900, 700]), 64: (0.5, [90, 200])}


def test_a_study_outlives_its_kernel_as_a_file(tmp_path, found):
    for number, one in enumerate((STUDY, found[0])):
        path = tmp_path / f"{number}.json"
        path.write_text(one.dumps(), encoding="utf-8")
        assert cl.Study.load(path) == one
        assert cl.Study.load(str(path)).best() == one.best()


def test_the_file_of_a_study_has_a_line_for_each_row_of_numbers():
    lines = [line.strip() for line in STUDY.dumps().splitlines()]
    assert "[ 900, 700 ]," in lines and "[ 1500, null ]" in lines
    assert json.loads(STUDY.dumps())["rates"] == [0.25, 0.5]


def test_a_study_shows_itself_in_one_line_and_as_a_table():
    line = "steps to val_error 0.05 for 3 batch sizes, 2 rates"
    assert repr(STUDY).startswith(line)
    page = STUDY._repr_html_()
    assert page.count("<tr>") == 4 and line in page
    row = [f">{cell}</td>" for cell in ("16", "0.25", "900, 700", "800", "12,800")]
    assert all(cell in page for cell in row)
    assert ">1,024</td>" in page and page.count("not reached with every seed") == 1


def test_rates_that_are_as_good_within_an_error_are_near_the_best_one():
    rows = [[100, 120], [101, 121], [150, 170], [None, 90]]
    study = cl.Study(("val_error", 0.05), (0.1, 0.2, 0.4, 0.8), {8: rows})
    assert study.best() == {8: (0.1, [100, 120])}
    assert study.near() == {8: (0.1, 0.2)}  # one standard error is 10 steps
    alone = cl.Study(("val_error", 0.05), (0.1, 0.2), {8: [[100], [101]]})
    assert alone.near() == {8: (0.1, 0.1)}


# --- what is seen meanwhile


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_sweep_tells_its_steps_in_a_terminal_and_leaves_nothing():
    with contextlib.redirect_stderr(Terminal()) as written:
        sweep()
    assert "batch size 16: step" in written.getvalue()
    assert written.getvalue().endswith("\r\x1b[K")


def test_a_study_tells_how_many_batch_sizes_are_done(tmp_path):
    with (
        contextlib.redirect_stderr(Terminal()) as written,
        sweeps._counting(tmp_path, 4),
    ):
        (tmp_path / "16").touch()
        assert becomes(lambda: " 25% 1 of 4 batch sizes done" in written.getvalue())


CELL = """
import sys; sys.path.insert(0, {root!r})
import course_lib as cl
from tests.trainings import digits, make
cl.steps_to_target(make, *digits(), batch_sizes=[128, 64], rates=[0.1], seeds=2,
                   steps=500, target=("val_error", -1))
"""


def test_a_study_in_a_notebook_shows_a_bar_below_its_cell_and_then_the_study():
    root = str(Path(__file__).parent.parent)
    with contextlib.closing(kernels.Kernel()) as kernel:
        messages = kernel.run(CELL.format(root=root))
    bars = [m for m in messages if "of 2 batch sizes done" in str(m["content"])]
    assert bars and kernels.error(messages) is None
    assert kernels.shown(messages).strip().startswith("steps to val_error -1 for 2")
    assert "<progress" not in kernels.shown(messages, "text/html")
