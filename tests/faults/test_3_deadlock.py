"""Row 3: ranks wait for each other; it is told within seconds, with rank and line."""

import json
import re

import pytest

from tests.faults.cells import failed, launches, value
from tests.kernels import error, shown

HEAD = """def train(rank, world_size):
    dist.init_process_group("gloo")
    x = torch.ones(10)
    now()
"""


def cell(body, call="cl.launch(train)", *, head=HEAD):
    """A cell whose ranks do `body`; its first line is line 5."""
    return head + "".join(f"    {line}\n" for line in body) + f"\n{call}"


def stalled(kernel, body, *, world_size=2, head=HEAD):
    """The error of a launch whose ranks wait for each other."""
    call = f"cl.launch(train, world_size={world_size})"
    text = failed(kernel, cell(body, call, head=head))
    assert text.startswith("LaunchStalled: train on ")
    assert "stood still, no rank can go on" in text
    return text


@pytest.mark.fault(3, "only rank 0 calls all-reduce")
def test_a_collective_under_an_if_is_named_with_its_line(kernel):
    body = ["if rank == 0:", "    dist.all_reduce(x)", "dist.barrier()"]
    text = stalled(kernel, body)
    assert "rank 0 waits in all_reduce: cell In[" in text
    assert "line 6, in train: dist.all_reduce(x)" in text
    assert "rank 1 waits in barrier: cell In[" in text
    assert "line 7, in train: dist.barrier()" in text
    assert "Collective 1 differs: rank 0 calls all_reduce of f32[10]," in text
    assert "rank 1 calls barrier.\nAll ranks must make the same" in text
    assert (
        "Does an `if`, a shorter loop or a caught error keep rank 1 from line 6?"
        in text
    )


@pytest.mark.fault(3, "collectives in another order")
def test_collectives_in_another_order_are_named(kernel):
    body = ["if rank == 0:", "    dist.broadcast(x, 0)", "    dist.barrier()"]
    body += ["else:", "    dist.barrier()", "    dist.broadcast(x, 0)"]
    text = stalled(kernel, body)
    assert "rank 0 waits in broadcast: " in text or "rank 0 waits in barrier: " in text
    assert "Collective 1 differs: rank 0 calls broadcast of f32[10]," in text
    assert "rank 1 calls barrier." in text


@pytest.mark.fault(3, "all send before they receive, in a ring")
def test_a_ring_in_which_all_send_first_is_named(kernel):
    body = ["dist.send(x, (rank + 1) % world_size)", "dist.recv(x)"]
    text = stalled(kernel, body, world_size=3)
    assert "ranks 0-2 wait in send: cell In[" in text
    assert "All send and nobody receives" in text
    assert "Let one side receive first, or use dist.batch_isend_irecv" in text


@pytest.mark.fault(3, "a barrier that one rank skips")
def test_a_barrier_that_one_rank_skips_is_named(kernel):
    body = ["if rank != 1:", "    dist.barrier()", "dist.all_reduce(x)"]
    text = stalled(kernel, body, world_size=3)
    assert "ranks 0, 2 call barrier, rank 1 calls all_reduce of f32[10]" in text
    assert "keep rank 1 from line 6?" in text


@pytest.mark.fault(3, "a rank that returned early while another waits to join")
def test_a_rank_that_returned_before_the_group_was_made_is_named(kernel):
    head = "def train(rank, world_size):\n    now()\n"
    body = ["if rank == 1:", "    return", 'dist.init_process_group("gloo")']
    text = stalled(kernel, body, head=head)
    assert "rank 0 waits in init_process_group: cell In[" in text
    assert "rank 1 has returned" in text
    assert "ends when all 2 ranks have called it, and rank 1 did not" in text


@pytest.mark.fault(3, "a rank that returned early while another communicates")
def test_a_rank_that_returned_after_fewer_calls_is_named(kernel):
    body = ["for _ in range(3 - rank):", "    dist.all_reduce(x)"]
    text = failed(kernel, cell(body))
    assert "rank 0 of 2 lost its connection in its collective call 3: rank 1" in text
    assert "had returned from train already, after 2." in text


@pytest.mark.fault(3, "a rank is stopped by SIGSTOP")
def test_a_stopped_rank_is_named(kernel):
    body = ["if rank == 1:", "    os.kill(os.getpid(), 19)", "dist.barrier()"]
    text = stalled(kernel, body)
    assert "rank 0 waits in barrier: cell In[" in text
    assert "rank 1 is stopped: a signal (SIGSTOP or SIGTSTP)" in text


@pytest.mark.fault(3, "more steps of DistributedDataParallel on one rank")
def test_a_backward_that_waits_for_gradients_is_named(kernel):
    body = ["layer = torch.nn.Linear(10, 10)"]
    body += ["model = torch.nn.parallel.DistributedDataParallel(layer)"]
    body += ["for step in range(3 - rank):", "    model(x).sum().backward()"]
    body += ["dist.barrier()"]
    text = stalled(kernel, body)
    assert "rank 0 waits in all_reduce of backward: cell In[" in text
    assert "line 8, in train: model(x).sum().backward()" in text
    assert "rank 0 calls all_reduce of f32[110], rank 1 calls barrier" in text


@pytest.mark.fault(3, "a receive without a send")
def test_a_receive_that_nobody_serves_is_named(kernel):
    body = ["if rank == 0:", "    dist.recv(x, 1)", "else:"]
    body += ["    work = dist.all_reduce(x, async_op=True)", "    work.wait()"]
    text = stalled(kernel, body)
    assert "rank 0 waits in recv: cell In[" in text
    assert "rank 1 waits in wait() of all_reduce: cell In[" in text
    assert "nobody will send to it" in text


@pytest.mark.fault(3, "a key of the store that nobody sets")
def test_a_key_that_nobody_sets_is_named(kernel):
    body = ["store = dist.distributed_c10d._get_default_store()"]
    body += ["if rank == 0:", '    store.get("ready")', "dist.barrier()"]
    text = stalled(kernel, body)
    assert "rank 0 waits in store.get('ready'): cell In[" in text
    assert 'line 7, in train: store.get("ready")' in text
    assert "rank 1 waits in barrier: cell In[" in text
    assert "rank 0 waits for a key that no rank has set.\nLook for its" in text


@pytest.mark.fault(3, "keys of a store of the learner's own, without a group")
def test_a_key_of_a_store_of_the_learners_own_is_named(kernel):
    head = "def train(rank, world_size):\n    now()\n"
    body = ['place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])']
    body += ["store = dist.TCPStore(*place, is_master=False)"]
    body += ['store.wait(["a", f"b{rank}"])']
    text = stalled(kernel, body, head=head)
    assert "rank 1 waits in store.wait(['a', 'b1']): cell In[" in text
    assert "ranks 0, 1 wait for a key that no rank has set." in text


@pytest.mark.fault(3, "a stall of sixteen ranks")
def test_sixteen_ranks_are_told_in_two_lines(kernel):
    body = ["if rank != 7:", "    dist.barrier()", "dist.all_reduce(x)"]
    text = stalled(kernel, body, world_size=16)
    assert "ranks 0-6, 8-15 wait in barrier: cell In[" in text
    assert "rank 7 calls all_reduce of f32[10]" in text


@pytest.mark.fault(3, "a stall in a thread of the rank")
def test_a_thread_that_waits_is_named(kernel):
    body = ["wait = lambda: dist.barrier()", "if rank == 0:"]
    body += ["    thread = threading.Thread(target=wait)", "    thread.start()"]
    body += ["    thread.join()", "dist.all_reduce(x)"]
    text = stalled(kernel, body)
    assert "rank 0 waits in barrier: cell In[" in text
    assert "line 5, in <lambda>" in text


@pytest.mark.fault(3, "a slow rank while the others wait: left alone")
def test_a_slow_but_healthy_launch_is_left_alone(kernel):
    code = """def slow(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        time.sleep(8)  # more than twice what a stall takes to be reported
    x = torch.ones(1)
    dist.all_reduce(x)
    return x.item()

list(cl.launch(slow))"""
    assert "[2.0, 2.0]" in value(kernel, code)


RESTS = """import os, signal, subprocess
from concurrent.futures import ThreadPoolExecutor

def timer(rank, world_size):
    if rank == 0:
        threading.Timer(6, dist.send, (torch.ones(1), 1)).start()
    else:
        dist.recv(torch.ones(1), 0)

def stopped(rank, world_size):
    if rank == 1:
        subprocess.Popen(["sh", "-c", f"sleep 5; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)

def forked(rank, world_size):
    if rank == 0 and (pid := os.fork()) == 0:
        time.sleep(6)
        os._exit(0)
    if rank == 0:
        os.waitpid(pid, 0)

def group(rank, world_size):
    from datetime import timedelta
    group = dist.new_group(timeout=timedelta(seconds=5))
    try:
        dist.barrier(group) if rank else dist.all_reduce(torch.ones(1), group=group)
    except RuntimeError:
        time.sleep(1)

def key(rank, world_size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        time.sleep(6)
        store.set("ready", "yes")
    store.get("ready")

def waits(rank, world_size):
    from datetime import timedelta
    work = dist.irecv(torch.ones(1), 1 - rank)
    try:
        work.wait(timedelta(seconds=5))
    except RuntimeError:
        return
    finally:
        time.sleep(1)

def healthy(rank, world_size, rests):
    dist.init_process_group("gloo")
    rests(rank, world_size)
    if rests is not waits:  # which has lost its connection
        dist.barrier()
    return "went on"

def run(rests):
    return set(cl.launch(healthy, rests, world_size=2))

with ThreadPoolExecutor() as pool:
    found = list(pool.map(run, (timer, stopped, forked, group, key, waits)))
found"""


@pytest.mark.fault(3, "ranks that rest for seconds, in six ways: left alone")
def test_ranks_that_rest_and_then_go_on_are_left_alone(kernel):
    assert shown(kernel.run(RESTS)).endswith(str([{"went on"}] * 6))


@pytest.mark.fault(3, "a wait with a time limit of its own: left to PyTorch")
def test_a_group_that_gives_up_by_itself_says_so_in_pytorchs_words(kernel):
    code = """from datetime import timedelta
def train(rank, world_size):
    dist.init_process_group("gloo", timeout=timedelta(seconds=6))
    now()
    try:
        dist.barrier() if rank else dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        return str(error)

import json
print("said", json.dumps(list(cl.launch(train))))"""
    said = json.loads(value(kernel, code).partition("said ")[2])
    # the first that gives up closes its connections, which the other may see first
    assert len(said) == 2 and any("imed out" in one for one in said)
    assert all(re.search("imed out| peer|roken pipe", one) for one in said), said


@pytest.mark.fault(3, "an endless loop: at the timeout")
def test_an_endless_loop_is_shown_by_its_line_when_the_time_is_up(kernel):
    body = ["while rank == 1:", "    x += 1", "dist.barrier()"]
    text = failed(kernel, cell(body, "cl.launch(train, timeout=6)"))
    assert "LaunchTimeout: train on 2 ranks: not done after 6 s" in text
    assert "rank 0 waits in barrier: cell In[" in text
    assert "rank 1 was in cell In[" in text and "in train: " in text
    assert "rank 0 waits for rank 1: look at the line of rank 1 first" in text


@pytest.mark.fault(3, "an endless loop: at the interrupt")
def test_an_endless_loop_is_shown_by_its_line_at_an_interrupt(kernel):
    body = ["print('ready')", "while True:", "    x += 1"]
    message_id = kernel.send(cell(body))
    kernel.until_shown(message_id, "[rank 1] ready")
    kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert "LaunchInterrupted: train on 2 ranks: interrupted" in text
    assert "in train: " in text
    assert launches(kernel)


@pytest.mark.fault(3, "processes that a rank forked wait: at the timeout")
def test_processes_that_a_rank_started_are_shown_below_it(kernel):
    code = """def add(lock):
    lock.acquire()  # and never gives it back

def train(rank, world_size):
    fork = torch.multiprocessing.get_context("fork")
    lock = fork.Lock()
    processes = [fork.Process(target=add, args=(lock,)) for _ in range(3)]
    for process in processes:
        process.start()
    now()
    for process in processes:
        process.join()

cl.launch(train, world_size=1, timeout=8)"""
    text = failed(kernel, code)
    assert "rank 0 was in cell In[" in text and "process.join()" in text
    assert "  2 processes that it started: cell In[" in text
    assert "line 2, in add: lock.acquire()" in text
