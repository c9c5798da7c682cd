"""Row 7: what ranks print is long, has no newline, is no text, or comes late."""

import pytest

from tests.fault_table import case
from tests.faults.cells import SOON, launches, value
from tests.kernels import error, shown

LINES = 'for n in range(1_000_000): print("a line of some fifty characters in all,", n)'


def sent(messages):
    """Characters that a cell sent to the notebook, all updates together."""
    return sum(len(str(message["content"])) for message in messages)


@pytest.mark.fault(7, "50 MB of output in lines")
def test_much_output_is_whole_in_the_results_and_short_in_the_cell(kernel):
    cell = f"""def speak(rank, world_size):
    {LINES}
    now()

results = cl.launch(speak, world_size=1)"""
    messages = kernel.run(cell)
    assert error(messages) is None
    assert kernel.waited < SOON
    text = shown(messages)
    assert "999,940 more lines: results.output[0] holds them all" in text
    assert "in all, 0\n" in text and "in all, 999999" in text
    assert sent(messages) < 5_000_000
    rows = "rows = results.output[0].splitlines()\nlen(rows), rows[-1][-6:]"
    assert "(1000000, '999999')" in value(kernel, rows)
    kernel.run("del results, rows")


@pytest.mark.fault(7, "50 MB of output without a newline")
def test_one_endless_line_is_whole_in_the_results_and_cut_in_the_cell(kernel):
    cell = """def speak(rank, world_size):
    for _ in range(50):
        print("x" * 1_000_000, end="")
    now()

results = cl.launch(speak, world_size=1)"""
    messages = kernel.run(cell)
    assert error(messages) is None
    assert kernel.waited < SOON
    assert "49,998,000 more characters" in shown(messages)
    assert sent(messages) < 5_000_000
    assert "50000000" in value(kernel, "len(results.output[0])")
    kernel.run("del results")


@pytest.mark.fault(7, "50 MB of a progress bar")
def test_a_progress_bar_of_many_states_is_one_line(kernel):
    cell = """def speak(rank, world_size):
    for n in range(1_000_000):
        print(f"\\r{n:>50} %", end="")
    now()

results = cl.launch(speak, world_size=1)
len(results.output[0]), results.output[0][-8:]"""
    assert "(52, '999999 %')" in value(kernel, cell)
    assert kernel.waited < SOON


@pytest.mark.fault(7, "output without a newline before a crash")
def test_what_a_rank_wrote_before_it_crashed_is_shown(kernel):
    cell = """def train(rank, world_size):
    print("the last words", end="")
    sys.stdout.flush()
    ctypes.string_at(0)

cl.launch(train, world_size=1)"""
    messages = kernel.run(cell)
    assert "killed by SIGSEGV" in error(messages)
    assert "[rank 0] the last words" in shown(messages)


@pytest.mark.fault(7, "binary bytes")
def test_bytes_that_are_no_text_are_replaced(kernel):
    cell = """def speak(rank, world_size):
    os.write(1, b"a\\xff\\xfe" + bytes(range(256)) + "é€".encode() + b"\\nend")

results = cl.launch(speak, world_size=1)
results.output[0].startswith("a\\ufffd\\ufffd\\0"), results.output[0][-6:]"""
    messages = kernel.run(cell)
    assert error(messages) is None
    assert "(True, 'é€\\nend')" in shown(messages)


@pytest.mark.fault(7, "a character cut in two")
def test_a_character_that_comes_in_two_pieces_is_one(kernel):
    cell = """def speak(rank, world_size):
    os.write(1, "é".encode()[:1])
    time.sleep(0.1)
    os.write(1, "é".encode()[1:])

cl.launch(speak, world_size=1).output[0]"""
    assert "'é'" in value(kernel, cell)


@pytest.mark.parametrize(
    "late",
    [
        case(7, "print in atexit", "import atexit; atexit.register(print, 'late')"),
        case(
            7,
            "print in a thread after the function returned",
            "threading.Timer(0.2, print, ['late']).start()",
        ),
        case(
            7,
            "print of a finalizer",
            "import weakref; sys.kept = torch.ones(1);"
            " weakref.finalize(sys.kept, print, 'late')",
        ),
        case(
            7,
            "C code that prints without a newline",
            "ctypes.CDLL(None).printf(b'late')",
        ),
        case(7, "output of a child process", "os.system('printf late')"),
    ],
)
def test_output_after_the_function_returned_is_kept(kernel, late):
    cell = f"""def speak(rank, world_size):
    {late}

cl.launch(speak, world_size=1).output[0].strip()"""
    assert "'late'" in value(kernel, cell)


@pytest.mark.fault(7, "a process that goes on to print after its rank ended")
def test_a_process_that_prints_for_ever_ends_with_the_launch(kernel):
    cell = """import subprocess
def speak(rank, world_size):
    subprocess.Popen(["sh", "-c", "while true; do echo y; done"])
    return rank

list(cl.launch(speak, world_size=3))"""
    assert "[0, 1, 2]" in value(kernel, cell)


@pytest.mark.fault(7, "standard output closed or replaced")
@pytest.mark.parametrize(
    "change", ["sys.stdout.close()", "os.close(1); os.close(2)", "sys.stdout = None"]
)
def test_a_rank_without_standard_output_goes_on(kernel, change):
    cell = f"""def train(rank, world_size):
    {change}
    return rank

list(cl.launch(train, world_size=2))"""
    assert "[0, 1]" in value(kernel, cell)
    assert launches(kernel)


def test_live_output_arrives_while_the_ranks_run(kernel):
    cell = """def train(rank, world_size):
    print("half way")
    time.sleep(1000)

cl.launch(train)"""
    message_id = kernel.send(cell)
    kernel.until_shown(message_id, "[rank 1] half way")
    kernel.manager.interrupt_kernel()
    assert "[rank 0] half way" in shown(kernel.finish(message_id))


def test_output_is_in_rank_order_at_the_end(kernel):
    cell = """def train(rank, world_size):
    time.sleep(0.1 * (1 - rank))
    print("hello from", rank)

results = cl.launch(train)"""
    text = shown(kernel.run(cell))
    assert text.index("[rank 0] hello from 0") < text.index("[rank 1] hello from 1")
