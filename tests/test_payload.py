"""What travels between notebook and ranks."""

import functools
import io
import linecache
import pickle
import runpy
import sys
import threading
import types
from multiprocessing import connection

import cloudpickle
import pytest
import torch

from course_lib.errors import UsageError
from course_lib.launching import payload
from course_lib.launching.protocol import Surroundings
from course_lib.launching.results import Results
from course_lib.launching.spec import Request
from course_lib.text import short

ONES = torch.ones(2)


def there_and_back(value):
    file = io.BytesIO()
    payload.dump(value, file)
    file.seek(0)
    return payload.load(file)


def test_functions_travel_by_value():
    factor = 3
    assert there_and_back(lambda x: x * factor)(5) == 15


def test_modules_of_a_class_of_their_own_are_imported_by_name():
    def asks():
        assert torch.backends.cudnn.benchmark in (True, False)
        return torch.ops.aten.add(torch.ones(1), 1).item()

    assert there_and_back(asks)() == 2
    assert there_and_back([torch.ops, torch.backends]) == [torch.ops, torch.backends]


def test_a_class_comes_back_as_itself():
    class Pair:
        pass

    assert type(there_and_back(Pair())) is Pair


def test_a_model_keeps_tied_weights():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    copy = there_and_back(model)
    assert copy[0].weight is copy[1].weight


def test_what_two_tensors_share_they_share_again():
    whole = torch.arange(4.0)
    first, second = there_and_back([whole, {"part": whole[2:]}])
    first[2] = 9.0
    assert second["part"].tolist() == [9.0, 3.0]


@pytest.mark.parametrize(
    "value, saved",
    [
        ({"loss": 0.5, "names": ("a", b"b"), "far": 10**30}, False),
        (len, False),
        (torch.device("cpu"), False),
        ({"far": {"below": [torch.ones(2)]}}, True),
        (torch.nn.Linear(2, 2), True),
        ([torch.ones(2).untyped_storage()], True),
        (functools.partial(max, torch.ones(2)), True),
        (ONES.add, True),
    ],
)
def test_pytorch_saves_what_has_tensors_and_that_alone(monkeypatch, value, saved):
    calls = []

    def save(*args, **kwargs):
        calls.append(args)
        torch.save(*args, **kwargs)

    monkeypatch.setattr(payload, "_save", save)
    assert type(there_and_back(value)) is type(value)
    assert bool(calls) == saved


NOTEBOOK = """
from collections import OrderedDict
count = 0

class Stat:
    pass

class Unused:
    pass

def bump():
    global count
    count += 1
    return count

def train(rank, world_size, stat):
    return bump()
"""


@pytest.fixture
def travelled(monkeypatch):
    """A call of the notebook's `train` as a rank reads it; the `__main__` there."""
    sides = [types.ModuleType("__main__") for _ in range(2)]
    monkeypatch.setitem(sys.modules, "__main__", sides[0])
    exec(NOTEBOOK, vars(sides[0]))
    notebook, file = sides[0], io.BytesIO()
    args = [{"stat": notebook.Stat(), "x": torch.ones(2)}]
    asked = Request(notebook.train, args, {}, ["stat"], 2, trace=False, timeout=None)
    payload.pack(asked, file=file)
    monkeypatch.setitem(sys.modules, "__main__", sides[1])
    # as in another process, where no class of the notebook is known yet
    monkeypatch.setattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", {})
    file.seek(0)
    return payload.load(file), sides[1]


def test_what_travels_is_in_the_main_of_the_rank(travelled):
    (train, (case,), _), main = travelled
    assert main.train is train and main.bump is train.__globals__["bump"]
    assert type(case["stat"]) is main.Stat
    assert not hasattr(main, "Unused")


def test_functions_share_the_variables_of_the_main_of_the_rank(travelled):
    (train, _, _), main = travelled
    assert [train(0, 2, None), main.bump(), main.count] == [1, 2, 2]


def test_a_rank_pickles_by_name_what_travelled(travelled):
    (train, (case,), _), main = travelled
    stat = pickle.loads(pickle.dumps([case["stat"], train]))
    assert type(stat[0]) is main.Stat and stat[1] is train


def test_a_process_that_starts_afresh_finds_by_name_what_travelled(
    monkeypatch, tmp_path
):
    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec(NOTEBOOK, vars(notebook))
    with open(tmp_path / "call", "w+b") as file:
        payload.pack(Request(notebook.train, (), {}, [], 2, False, None), file=file)
    cell = {"<cell>": (5, None, ["x = 1\n"], "<cell>")}
    (tmp_path / "setup").write_bytes(
        pickle.dumps(Surroundings({}, [], None, cell, None, (30, []), []))
    )
    for name in ("call", "setup"):
        monkeypatch.setenv(f"COURSE_LIB_{name.upper()}", str(tmp_path / name))
    monkeypatch.setattr(linecache, "cache", {})
    monkeypatch.setattr(connection, "arbitrary_address", connection.arbitrary_address)
    name = "course_lib.launching.mp_main"
    # as multiprocessing does it
    main = runpy.run_module(name, run_name="__mp_main__", alter_sys=True)
    assert main["train"].__globals__["count"] == 0
    assert [main["train"](0, 2, None), main["bump"]()] == [1, 2]
    assert main["__spec__"].name == name  # for processes that this one starts
    assert linecache.getline("<cell>", 1) == "x = 1\n"
    if sys.platform == "linux":
        assert connection.arbitrary_address("AF_UNIX")[0] == "\0"  # it is no file


def test_a_function_that_comes_back_leaves_the_variables_of_the_notebook(travelled):
    (train, _, _), main = travelled
    main.bump()
    back = there_and_back(train)
    assert back(0, 2, None) == 2 and main.count == 1


def refusal(fn, *args, names=()):
    with pytest.raises(UsageError) as caught:
        asked = Request(fn, args, {}, list(names), 2, trace=False, timeout=None)
        payload.pack(asked, file=io.BytesIO())
    return str(caught.value)


def test_a_global_in_an_inner_function_is_named(monkeypatch):
    monkeypatch.setitem(globals(), "door", threading.Lock())

    def train(rank, world_size):
        def add():
            return [door for _ in range(2)]  # noqa: F821

        return add

    assert "train` uses the variable `door`" in refusal(train)


def test_an_argument_is_named():
    text = refusal(lambda rank, world_size, q: None, threading.Lock(), names=["q"])
    assert "the argument `q` is a _thread.lock" in text


def test_a_variable_of_a_function_that_is_called_is_named():
    lock = threading.Lock()

    def helper():
        return lock

    def train(rank, world_size):
        return helper()

    assert "helper` uses the variable `lock`" in refusal(train)


CELL = """
import threading
LOCK = threading.Lock()

class Net:
    def get(self):
        other = Net
        with LOCK:
            return 1

class Trainer:
    def __init__(self):
        self.net = Net()

class Holder:
    def __init__(self):
        self.items = {"a": [threading.Lock()]}

class Marked:
    lock = LOCK

trainer, holder = Trainer(), Holder()

def run(rank):
    return Trainer()

def by_class(rank, world_size):
    return run(rank)

def by_object(rank, world_size):
    return trainer

def by_holder(rank, world_size):
    return holder

def by_attribute(rank, world_size):
    return Marked

def itself(rank, world_size):
    return LOCK

def takes(rank, world_size, given):
    return given
"""


@pytest.fixture
def cell(monkeypatch):
    """What a cell defines."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(CELL, vars(main))
    return main


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("by_class", "`Net.get` uses the variable `LOCK`, a _thread.lock,"),
        ("by_object", "`Net.get` uses the variable `LOCK`, a _thread.lock,"),
        (
            "by_holder",
            "`by_holder` uses the variable `holder.items['a'][0]`, a _thread",
        ),
        ("by_attribute", "`by_attribute` uses the variable `Marked.lock`, a _thread"),
        ("itself", "`itself` uses the variable `LOCK`, a _thread.lock,"),
    ],
)
def test_the_innermost_that_cannot_travel_is_named(cell, name, words):
    text = refusal(getattr(cell, name))
    assert words in text
    # a global that others look up: to make another in the function is not enough
    far = f"(`del LOCK`), and create it inside {name} instead: `global LOCK`, then"
    assert (far in text) is ("Net.get" in words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("holder", "the argument `given.items['a'][0]` is a _thread.lock,"),
        ("trainer", "`Net.get` uses the variable `LOCK`, a _thread.lock,"),
    ],
)
def test_the_innermost_of_an_argument_is_named(cell, given, words):
    assert words in refusal(cell.takes, getattr(cell, given), names=["given"])


def test_functions_that_call_each_other_are_searched_once():
    lock = threading.Lock()

    def ping():
        return pong(), lock

    def pong():
        return ping()

    assert "`lock`" in refusal(pong)


@pytest.mark.parametrize(
    "value, text",
    [
        (torch.zeros(8, 4), "f32[8, 4]"),
        (torch.zeros(2, dtype=torch.bfloat16), "bf16[2]"),
        (torch.zeros(2, dtype=torch.int64), "i64[2]"),
        (torch.tensor(1.5), "tensor(1.5000)"),
        (3, "3"),
        ({"loss": 0.5, "w": torch.zeros(2)}, "{'loss': 0.5, 'w': f32[2]}"),
        ([1, torch.zeros(2)], "[1, f32[2]]"),
        ((0.5,), "(0.5,)"),
        (list(range(30)), "list of 30: 0, 1, 2, 3"),
        ("x" * 100, "'" + "x" * 56 + "..."),
    ],
)
def test_a_value_is_shown_in_one_short_line(value, text):
    assert short(value) == text


def test_results_are_a_table():
    results = Results(
        [1, torch.zeros(2)],
        output=["a\n", ""],
        seconds=[0.1, 0.2],
        trace=None,
        meter=None,
        title="2 ranks",
    )
    assert results[1].shape == (2,)
    assert repr(results) == "Results of 2 ranks: [1, f32[2]]"
    assert results._repr_html_().count("<tr>") == 3
