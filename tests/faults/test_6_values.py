"""Row 6: what a rank returns or raises is large, odd or cannot travel."""

import pytest
import torch

from tests.fault_table import case
from tests.faults.cells import failed, fault, launches, value
from tests.kernels import error


@pytest.mark.fault(6, "a return value of 1 GB")
def test_a_value_of_a_gigabyte_comes_back(kernel):
    big = "lambda rank, world_size: torch.full((1 << 28,), 3.0)"
    cell = f"x = cl.launch({big}, world_size=1)[0]\nx.nbytes, x[0].item(), x[-1].item()"
    assert "(1073741824, 3.0, 3.0)" in value(kernel, cell)
    kernel.run("del x")


@pytest.mark.fault(6, "an argument of 1 GB")
def test_an_argument_of_a_gigabyte_arrives(kernel):
    fn = "lambda rank, world_size, x: x[-1].item()"
    call = f"cl.launch({fn}, torch.ones(1 << 28), world_size=1)"
    assert "[1.0]" in value(kernel, f"list({call})")


@pytest.mark.parametrize(
    "made, kind",
    [
        case(6, "a lock returned", "threading.Lock()", "lock"),
        case(6, "a generator returned", "(i for i in range(3))", "generator"),
        case(6, "a process group returned", "group()", "ProcessGroup"),
        case(6, "a socket returned", "__import__('socket').socket()", "socket"),
    ],
)
def test_a_value_that_cannot_travel_is_named_with_its_rank(kernel, made, kind):
    cell = f"""def group():
    dist.init_process_group("gloo", world_size=1, rank=0, store=dist.HashStore())
    return dist.group.WORLD

def train(rank, world_size):
    now()
    return {made} if rank else 1

cl.launch(train)"""
    text = failed(kernel, cell)
    assert f"rank 1 of 2 returned a {kind}, which cannot be sent back" in text
    assert "Return tensors, numbers, strings, lists or dicts instead" in text
    assert "Traceback" not in text


@pytest.mark.fault(6, "a value that cannot be read back")
def test_a_value_that_cannot_be_read_back_is_named(kernel):
    cell = """class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a + b)

def train(rank, world_size):
    now()
    return Odd("a", "b") if rank == 1 else None

cl.launch(train)"""
    text = failed(kernel, cell)
    assert "rank 1 of 2 returned" in text and "cannot be sent back" in text


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.fault(6, "a CUDA tensor returned")
def test_a_cuda_tensor_arrives_on_the_cpu(kernel):
    made = "torch.ones(3, device='cuda') * rank"
    cell = f"x = cl.launch(lambda rank, world_size: {made}, world_size=2)[1]\nx"
    assert "tensor([1., 1., 1.])" in value(kernel, cell)
    assert "False" in value(kernel, "torch.cuda.is_initialized()")


@pytest.mark.fault(6, "a tensor of a virtual GPU returned")
def test_a_tensor_of_a_virtual_gpu_arrives_on_the_cpu(kernel):
    made = "torch.ones(3, device=cl.devices(2, quiet=True)[1]) * rank"
    cell = f"x = cl.launch(lambda rank, world_size: {made}, world_size=2)[1]\nx"
    assert "tensor([1., 1., 1.])" in value(kernel, cell)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.fault(6, "a tensor in shared memory returned")
def test_a_tensor_in_shared_memory_comes_back_as_one_of_the_notebook(kernel, strategy):
    cell = f"""def shared(rank, world_size):
    torch.multiprocessing.set_sharing_strategy("{strategy}")
    x = torch.zeros(1000)
    x.share_memory_()
    x += rank
    return x, x[:2]

whole, part = cl.launch(shared)[1]
part[0] = 7
whole[:3], whole.is_shared()"""
    assert "(tensor([7., 1., 1.]), False)" in value(kernel, cell)


@pytest.mark.parametrize(
    "strategy, victim",
    [
        case(6, "ranks killed while workers share tensors", "file_descriptor", "-"),
        case(6, "ranks killed while workers share files", "file_system", "-"),
        case(6, "with them who would remove these", "file_system", "torch_shm_man"),
    ],
)
def test_ranks_that_are_killed_leave_no_shared_tensor(kernel, strategy, victim):
    cell = f"""import psutil
def train(rank, world_size):
    torch.multiprocessing.set_sharing_strategy("{strategy}")
    data = torch.utils.data.TensorDataset(torch.arange(800.0))
    for (x,) in torch.utils.data.DataLoader(data, 4, num_workers=2):
        if x[0] > 80:
            now()
            for child in psutil.Process().children(recursive=True):
                if child.name().startswith("{victim}"):
                    child.kill()
            os.kill(os.getpid(), 9)

cl.launch(train)"""
    assert "was killed by SIGKILL" in failed(kernel, cell)


def test_a_worker_that_its_rank_waited_for_leaves_no_shared_tensor(kernel):
    cell = """import psutil
def share():
    torch.multiprocessing.set_sharing_strategy("file_system")
    kept = torch.ones(3).share_memory_()
    for child in psutil.Process().children(recursive=True):
        child.kill()  # who would remove the file
        child.wait()
    os.kill(os.getpid(), 9)

def train(rank, world_size):
    worker = torch.multiprocessing.get_context("fork").Process(target=share)
    worker.start()
    worker.join()
    return worker.exitcode

cl.launch(train)"""
    assert "[-9, -9]" in value(kernel, cell)


@pytest.mark.fault(6, "a tensor in shared memory given to the ranks")
def test_a_tensor_in_shared_memory_is_copied_to_each_rank(kernel):
    cell = """x = torch.zeros(3).share_memory_()
def add(rank, world_size):
    x.add_(rank + 1)
    return x

found = cl.launch(add)
x, found[0], found[1]"""
    text = value(kernel, cell)
    assert "tensor([0., 0., 0.]), tensor([1., 1., 1.]), tensor([2., 2., 2.])" in text


@pytest.mark.fault(6, "an exception class of the cell")
def test_an_exception_class_of_the_cell_is_named(kernel):
    cell = """class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a + b)

def train(rank, world_size):
    now()
    raise Odd("too ", "odd")

cl.launch(train)"""
    assert "raised Odd: too odd" in failed(kernel, cell)


@pytest.mark.parametrize(
    "raised, message",
    [
        case(
            6,
            "an exception that cannot be pickled",
            "ValueError('locked', threading.Lock())",
            "raised ValueError: ('locked', <unlocked _thread.lock",
        ),
        case(
            6,
            "an exception that cannot be shown",
            "type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()",
            "raised Mute: (its message cannot be shown)",
        ),
        case(
            6,
            "an exception with a message of 100 MB",
            "ValueError('long ' * 20_000_000)",
            "raised ValueError: long long long",
        ),
    ],
)
def test_any_exception_is_named(kernel, raised, message):
    text = fault(kernel, f"raise {raised}")
    assert f"rank 1 of 2 {message}" in text
    assert len(text) < 10_000


@pytest.mark.fault(6, "an argument that cannot travel")
def test_an_argument_that_cannot_travel_is_named_before_any_rank_starts(kernel):
    text = error(
        kernel.run("cl.launch(lambda rank, world_size, x: x, threading.Lock())")
    )
    assert "UsageError: cannot send <lambda> to the ranks" in text
    assert "the argument `x` is a _thread.lock" in text


def test_a_wrong_call_is_one_sentence(kernel):
    text = error(kernel.run("cl.launch(lambda rank: rank)"))
    assert text.startswith("UsageError: ")
    assert "Traceback" not in text
    assert len(text.splitlines()) == 1
    assert launches(kernel)
