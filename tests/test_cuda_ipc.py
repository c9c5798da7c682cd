"""A CUDA tensor in a queue: the receiver gets the sender's memory, not a copy."""

from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing as mp

from tests.conftest import becomes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
START = mp.get_context("spawn")  # a forked process cannot use CUDA


def change(there, back):
    tensor = there.get(timeout=100)
    tensor += 1
    torch.cuda.synchronize()
    back.put((tensor.device.index, tensor[:4].tolist()))
    # the last reference goes before the process ends, as the producer must outlive it
    del tensor


@pytest.fixture
def queues():
    """A queue to the child and one back, closed with their threads after the test.

    PyTorch keeps a file of counters and `multiprocessing` a tracker until this process
    ends, so something is left here.
    """
    pair = START.Queue(), START.Queue()
    yield pair
    for queue in pair:
        queue.close()
        queue.join_thread()


@pytest.fixture
def child(queues):
    process = START.Process(target=change, args=queues)
    process.start()
    yield process
    process.kill()
    process.join()


def test_what_the_child_adds_to_a_cuda_tensor_is_seen_by_the_parent(queues, child):
    there, back = queues
    tensor = torch.arange(4.0, device="cuda")
    there.put(tensor)
    assert back.get(timeout=100) == (tensor.device.index, [1.0, 2.0, 3.0, 4.0])
    assert tensor.tolist() == [1.0, 2.0, 3.0, 4.0]
    child.join(100)
    assert child.exitcode == 0


def test_the_queue_sends_a_handle_and_not_the_numbers(queues, child):
    there, back = queues
    pickled = ForkingPickler.dumps
    small, large = (torch.zeros(n, device="cuda") for n in (16, 2**20))
    lengths = [len(pickled(tensor)) for tensor in (small, large)]
    assert max(lengths) < 2000
    there.put(small)  # ends the child
    assert back.get(timeout=100)


def test_memory_that_the_child_still_uses_is_kept_until_it_lets_go(queues, child):
    there, back = queues
    torch.cuda.ipc_collect()
    before = torch.cuda.memory_allocated()
    tensor = torch.zeros(2**20, device="cuda")
    assert torch.cuda.memory_allocated() > before
    there.put(tensor)
    assert back.get(timeout=100)[0] == tensor.device.index
    del tensor
    child.join(100)

    def given_back():
        torch.cuda.ipc_collect()
        return torch.cuda.memory_allocated() <= before

    assert becomes(given_back)
