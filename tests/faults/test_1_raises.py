"""Row 1: a rank raises."""

import re
import sys

import pytest

from tests.fault_table import case
from tests.faults.cells import SOON, failed, fault, launches, others, placed
from tests.kernels import error, shown


@pytest.mark.fault(1, "before a collective")
def test_a_rank_that_raises_is_shown_with_the_line_of_the_cell(kernel):
    text = fault(kernel, "missing + 1")
    assert "rank 1 of 2 raised NameError: name 'missing' is not defined" in text
    assert "-->   5          missing + 1" in text
    assert "cell In[" in text
    assert "rank 0 of" not in text


@pytest.mark.parametrize(
    "body",
    [
        case(1, "after a collective", "{all_reduce}; missing + 1"),
        case(1, "while its own collective is in flight", "{in_flight}; missing + 1"),
    ],
)
def test_a_collective_before_it_does_not_hide_the_error(kernel, body):
    cell = f"""def train(rank, world_size):
    dist.init_process_group("gloo")
    x = torch.ones(9)
    if rank == 0:
        dist.all_reduce(x)
    if rank == 1:
        now()
        {
        body.format(
            all_reduce="dist.all_reduce(x)",
            in_flight="dist.all_reduce(x, async_op=True)",
        )
    }
    dist.all_reduce(x)

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised NameError: name 'missing' is not defined" in text
    assert "-->   8  " in text


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.fault(1, "while the others are in a collective")
def test_ranks_in_a_collective_are_placed_there(kernel, world_size):
    cell = f"""def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 0:
        now()
        raise ValueError("no such file")
    dist.barrier()

cl.launch(train, world_size={world_size})"""
    text = failed(kernel, cell)
    assert f"rank 0 of {world_size} raised ValueError: no such file" in text
    rest = set(range(1, world_size))
    assert placed(text, rest, "line 6, in train: dist.barrier()"), text


@pytest.fixture
def patient(kernel):
    """A kernel whose launches wait for ranks that lack a core as they fail."""
    kernel.run("from course_lib.launching import launcher; launcher._PATIENCE *= 20")
    yield kernel
    kernel.run("launcher._PATIENCE /= 20")


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.fault(1, "while others raise, too")
def test_the_errors_of_other_ranks_are_shown(patient, tmp_path, world_size):
    cell = f"""def train(rank, world_size):
    dist.init_process_group("gloo")
    open({str(tmp_path)!r} + f"/{{rank}}", "w").close()
    while len(os.listdir({str(tmp_path)!r})) < world_size:
        pass
    now()
    raise ValueError(f"sample {{rank}} is bad")

cl.launch(train, world_size={world_size})"""
    text = failed(patient, cell)
    told, first = others(text), int(re.search(r"rank (\d) of", text)[1])
    assert f"rank {first} of {world_size} raised ValueError: sample {first}" in text
    assert told.keys() == set(range(world_size)) - {first}, text
    for rank, words in told.items():
        assert words.startswith(f"raised ValueError: sample {rank} is bad (cell"), text


@pytest.mark.fault(1, "during a collective, which itself raises")
def test_a_collective_that_raises_is_shown_with_its_line(kernel):
    cell = """from datetime import timedelta

def train(rank, world_size):
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    if rank == 0:
        time.sleep(1000)
    now()
    dist.all_reduce(torch.ones(3))

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised RuntimeError" in text and "Timed out" in text
    assert "-->   8      dist.all_reduce(torch.ones(3))" in text
    assert "rank 0 was stopped in cell In[" in text
    assert "line 6, in train: time.sleep(1000)" in text


@pytest.mark.fault(1, "in backward")
def test_an_error_in_backward_is_shown_with_the_line_of_the_function(kernel):
    cell = """from torch.nn.parallel import DistributedDataParallel as DDP

class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        now()
        return grad.reshape(7)

def train(rank, world_size):
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(3, 3))
    y = model(torch.ones(2, 3))
    (Odd.apply(y) if rank == 1 else y).sum().backward()

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised RuntimeError: shape '[7]' is invalid" in text
    assert "-->  17      (Odd.apply(y) if rank == 1 else y).sum().backward()" in text
    assert "-->  11          return grad.reshape(7)" in text


@pytest.mark.fault(1, "in a DataLoader worker")
def test_an_error_in_a_data_loader_worker_is_shown_with_its_own_line(kernel):
    cell = """class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        now()
        return missing[i]

def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        for batch in torch.utils.data.DataLoader(Data(), num_workers=2):
            pass
    dist.all_reduce(torch.ones(3))

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised NameError: Caught NameError in DataLoader worker" in text
    assert "line 7, in __getitem__" in text and "return missing[i]" in text
    assert "-->  12          for batch in" in text


THREAD = """def train(rank, world_size):
    def late():
        now()
        missing + 1
    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
    return rank

results = cl.launch(train, world_size=1)
results"""


@pytest.mark.fault(1, "in a thread")
def test_an_error_in_a_thread_is_shown_and_the_rank_goes_on_as_in_python(kernel):
    text = shown(kernel.run(THREAD))
    assert kernel.waited < SOON
    assert "[rank 0] Exception in thread" in text
    assert "NameError: name 'missing' is not defined" in text
    assert "Results of 1 rank" in text


@pytest.mark.fault(1, "in a thread whose result is asked for")
def test_an_error_in_a_thread_pool_is_one_of_the_rank(kernel):
    cell = """from concurrent.futures import ThreadPoolExecutor

def late():
    now()
    missing + 1

def train(rank, world_size):
    ThreadPoolExecutor().submit(late).result()

cl.launch(train, world_size=1)"""
    text = failed(kernel, cell)
    assert "rank 0 of 1 raised NameError" in text
    assert "-->   5      missing + 1" in text


@pytest.mark.fault(1, "several errors in one group")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
def test_the_errors_of_a_group_are_named(kernel):
    group = "ExceptionGroup('two', [ValueError('first'), KeyError('second')])"
    text = fault(kernel, f"raise {group}")
    assert "rank 1 of 2 raised ExceptionGroup: two (2 sub-exceptions)" in text
    assert "ValueError: first" in text and "KeyError: 'second'" in text


@pytest.mark.fault(1, "deep in a library")
def test_library_frames_are_folded(kernel):
    text = fault(kernel, "torch.nn.Linear(2, 3)(torch.ones(5, 7))")
    assert "mat1 and mat2 shapes cannot be multiplied" in text
    assert "more in libraries" in text
    assert "site-packages" not in text


def test_the_whole_traceback_can_be_asked_for(kernel):
    fault(kernel, "torch.nn.Linear(2, 3)(torch.ones(5, 7))")
    text = shown(kernel.run("print(cl.last_error().details)"))
    assert "torch/nn/modules/linear.py" in text


@pytest.mark.fault(1, "while another rank computes")
def test_a_rank_that_still_ran_is_shown_with_its_line(kernel):
    cell = """def train(rank, world_size):
    if rank == 0:
        time.sleep(1000)
    now()
    1 / 0

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised ZeroDivisionError" in text
    assert "rank 0 was stopped in cell In[" in text
    assert "line 3, in train: time.sleep(1000)" in text


@pytest.mark.fault(1, "before another rank has begun")
def test_a_rank_that_had_not_begun_is_said_to_be_so(kernel):
    cell = """class Slow:
    def __reduce__(self):
        rank, sleep = "__import__('os').environ['RANK']", "__import__('time').sleep"
        return eval, (f"{sleep}(1000) if {rank} == '0' else None",)

def train(rank, world_size, slow):
    now()
    1 / 0

cl.launch(train, Slow())"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised ZeroDivisionError" in text
    assert "rank 0 had not begun train yet" in text


@pytest.mark.fault(1, "while another rank ends")
def test_a_rank_that_had_left_the_function_is_said_to_have(kernel, tmp_path):
    # the link is there once rank 0 has left, what it points to until `told` has ended
    cell = f"""import traceback
LINK = {str(tmp_path / "told")!r}

def told():
    main = threading.main_thread().ident
    while "_shutdown" not in str(traceback.extract_stack(sys._current_frames()[main])):
        time.sleep(0.01)
    os.symlink(f"/proc/{{os.getpid()}}/task/{{threading.get_native_id()}}", LINK)

def train(rank, world_size):
    if rank == 0:
        threading.Thread(target=time.sleep, args=[1000]).start()
        threading.Thread(target=told).start()
        return
    while not os.path.islink(LINK) or os.path.exists(LINK):
        time.sleep(0.01)
    now()
    1 / 0

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 raised ZeroDivisionError" in text
    assert "rank 0 had left train already" in text


@pytest.mark.fault(1, "KeyboardInterrupt, raised by the rank itself")
def test_a_rank_may_raise_what_an_interrupt_raises(kernel):
    text = fault(kernel, "raise KeyboardInterrupt")
    assert "rank 1 of 2 raised KeyboardInterrupt" in text


def test_the_launch_after_a_failed_one_works(kernel):
    assert error(kernel.run("cl.launch(lambda rank, world_size: 1 / 0)"))
    assert launches(kernel)
