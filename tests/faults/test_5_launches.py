"""Row 5: launches at the same time, in a row, inside others, small and large."""

import pytest

from tests.fault_table import case
from tests.faults.cells import fault, launches, opened, value
from tests.kernels import error, shown

TOTAL = """
def total(rank, world_size, x):
    dist.init_process_group("gloo")
    y = torch.tensor([float(x)])
    for _ in range(50):
        dist.all_reduce(y)
        y /= world_size
    return y.item()
"""


@pytest.mark.fault(5, "two notebooks at the same time")
def test_two_notebooks_launch_at_the_same_time(kernel):
    other = opened()
    try:
        cells = [f"{TOTAL}\nlist(cl.launch(total, {x}, world_size=2))" for x in (3, 5)]
        pairs = [(k, k.send(cell)) for k, cell in zip((kernel, other), cells)]
        texts = [shown(k.finish(message_id)) for k, message_id in pairs]
    finally:
        other.close()
    assert "[3.0, 3.0]" in texts[0]
    assert "[5.0, 5.0]" in texts[1]


@pytest.mark.fault(5, "two notebooks on one fixed port")
def test_two_notebooks_name_the_same_port(kernel):
    port = 'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500"'
    told = TOTAL.replace(
        'dist.init_process_group("gloo"', f"{port}, rank=rank, world_size=world_size"
    )
    other = opened()
    try:
        cells = [f"{told}\nlist(cl.launch(total, {x}, world_size=2))" for x in (3, 5)]
        pairs = [(k, k.send(cell)) for k, cell in zip((kernel, other), cells)]
        texts = [shown(k.finish(message_id)) for k, message_id in pairs]
    finally:
        other.close()
    assert "[3.0, 3.0]" in texts[0]
    assert "[5.0, 5.0]" in texts[1]


IN_THREADS = f"""{TOTAL}
found = {{}}
def work(x):
    try:
        found[x] = list(cl.launch(total, x, world_size=2))
    except BaseException as error:
        found[x] = error
threads = [threading.Thread(target=work, args=[x]) for x in (1, 2, 3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sorted(found.items())"""


@pytest.mark.fault(5, "three launches in threads of one notebook")
def test_launches_in_threads_do_not_meet(kernel):
    assert "[(1, [1.0, 1.0]), (2, [2.0, 2.0]), (3, [3.0, 3.0])]" in value(
        kernel, IN_THREADS
    )


@pytest.mark.fault(5, "a launch in a thread fails")
def test_a_failed_launch_in_a_thread_raises_there(kernel):
    cell = """import concurrent.futures as futures
with futures.ThreadPoolExecutor() as pool:
    pool.submit(cl.launch, lambda rank, world_size: 1 / rank).result()"""
    assert "rank 0 of 2 raised ZeroDivisionError" in error(kernel.run(cell))


@pytest.mark.fault(5, "the cell is interrupted while a thread launches")
def test_a_launch_in_a_thread_ends_by_its_timeout_after_an_interrupt(kernel):
    cell = """def hang(rank, world_size):
    print("ready")
    time.sleep(1000)

def work():
    try:
        cl.launch(hang, timeout=8)
    except cl.LaunchError as error:
        caught.append(str(error))
    done.set()

caught, done = [], threading.Event()
threading.Thread(target=work).start()
done.wait()"""
    message_id = kernel.send(cell)
    kernel.until_shown(message_id, "[rank 0] ready")
    kernel.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in error(kernel.finish(message_id))
    kernel.run("done.wait()")
    assert "hang on 2 ranks: not done after 8 s" in value(kernel, "caught[0]")


@pytest.mark.fault(5, "a launch inside a rank")
def test_a_launch_inside_a_rank_is_refused(kernel):
    text = error(kernel.run("cl.launch(lambda rank, world_size: cl.launch(print))"))
    assert "ranks cannot start ranks" in text


@pytest.mark.fault(5, "a process of its own inside a rank, which launches")
def test_a_script_that_a_rank_starts_may_launch(kernel):
    script = (
        "import course_lib as cl;"
        "print(list(cl.launch(lambda rank, world_size: rank, world_size=2)))"
    )
    cell = f"""import subprocess
def run(rank, world_size):
    done = subprocess.run([sys.executable, "-c", {script!r}], capture_output=True)
    return done.stdout.decode()
cl.launch(run, world_size=1)[0]"""
    assert "[0, 1]" in value(kernel, cell)


LEAVE = "lambda rank, world_size: os._exit(3)"


@pytest.mark.parametrize(
    "fn",
    [case(5, "ten launches in a row", "rank_of"), case(5, "ten failed ones", LEAVE)],
)
def test_ten_launches_in_a_row_leave_no_open_files(kernel, fn):
    cell = f"""for _ in range(10):
    try:
        cl.launch({fn}, world_size=2)
    except cl.LaunchError:
        pass"""
    open_now = "len(os.listdir('/proc/self/fd')) + threading.active_count()"
    kernel.run(cell)
    before = int(value(kernel, open_now))
    kernel.run(cell)
    # the kernel itself opens and closes one now and then
    assert int(value(kernel, open_now)) < before + 10


@pytest.mark.fault(5, "16 ranks on two cores")
def test_sixteen_ranks_reduce_on_two_cores(kernel):
    assert "{4.0}" in value(kernel, f"{TOTAL}\nset(cl.launch(total, 4, world_size=16))")


@pytest.mark.fault(5, "one of 16 ranks fails")
def test_one_of_sixteen_ranks_that_fails_is_named(kernel):
    text = fault(kernel, "missing + 1", "cl.launch(train, world_size=16)")
    assert "rank 1 of 16 raised NameError" in text
    assert launches(kernel)


@pytest.mark.fault(5, "world_size 1")
def test_one_rank_alone_can_communicate_with_itself(kernel):
    assert "[7.0]" in value(kernel, f"{TOTAL}\nlist(cl.launch(total, 7, world_size=1))")


@pytest.mark.fault(5, "more ranks than the machine can bear")
def test_too_many_ranks_are_refused_before_any_is_started(kernel):
    text = error(kernel.run("cl.launch(rank_of, world_size=100_000)"))
    assert "UsageError" in text and "this machine can bear" in text
