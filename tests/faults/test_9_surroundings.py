"""Row 9: what the learner's function changes in its rank stays in that rank."""

import pytest

from tests.fault_table import case
from tests.faults.cells import failed, launches, value

# what a process would notice; the random state as a number that it leads to
STATE = """import random, numpy, signal, resource, warnings
from course_lib.launching import forkserver
def state(rank=0, world_size=1):
    # what the server imports while it is idle leaves traces, too
    [__import__(name) for name in forkserver.PRELOAD]
    old = os.umask(0)
    os.umask(old)
    environ = {k: v for k, v in os.environ.items() if k not in ours}
    return repr((
        environ, os.getcwd(), old, sys.path, sys.getrecursionlimit(),
        torch.get_default_device(), torch.get_default_dtype(),
        torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
        [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)],
        resource.getrlimit(resource.RLIMIT_NOFILE), torch.save.__module__,
        warnings.filters[:2], threading.active_count() if rank else None,
        torch.multiprocessing.get_sharing_strategy(),
        dist.is_initialized(), len(sys.meta_path), sys.stdout is None,
    ))

def dice():
    return hash((torch.get_rng_state().numpy().tobytes(), random.getstate(),
                 numpy.random.get_state()[1].tobytes()))

ours = ["MASTER_PORT", "COURSE_LIB_CALL", "COURSE_LIB_SETUP"]
threads = torch.get_num_threads()"""
NEXT = "list(cl.launch(state, world_size=2))"


@pytest.fixture(scope="module")
def watched(kernel):
    kernel.run(STATE)
    return kernel


@pytest.mark.parametrize(
    "change",
    [
        case(9, "environment", "os.environ.clear(); os.environ['PATH'] = '/nowhere'"),
        case(9, "one variable", "os.environ['COURSE_COLOR'] = 'green'"),
        case(9, "working folder", "os.chdir('/')"),
        case(9, "default device", "torch.set_default_device('meta')"),
        case(9, "default type", "torch.set_default_dtype(torch.float64)"),
        case(9, "random state", "torch.manual_seed(0); random.seed(0)"),
        case(9, "threads", "torch.set_num_threads(2)"),
        case(
            9,
            "signal handlers",
            "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT,"
            " signal.SIGUSR1, signal.SIGCHLD)]",
        ),
        case(9, "gradients off", "torch.set_grad_enabled(False)"),
        case(9, "deterministic", "torch.use_deterministic_algorithms(True)"),
        case(9, "sys.path", "sys.path.clear()"),
        case(9, "sys.stdout", "sys.stdout = sys.stderr = None"),
        case(9, "warnings", "warnings.simplefilter('error')"),
        case(9, "torch.save replaced", "torch.save = torch.load = print"),
        case(9, "umask", "os.umask(0o777)"),
        case(
            9,
            "limits",
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        ),
        case(
            9,
            "sharing strategy",
            "torch.multiprocessing.set_sharing_strategy('file_system')",
        ),
        case(9, "process group left open", "dist.init_process_group('gloo')"),
        case(9, "recursion limit", "sys.setrecursionlimit(500)"),
        case(9, "a session of its own", "os.fork() or os.setsid()"),
    ],
)
def test_what_a_rank_changes_stays_in_that_rank(watched, change):
    see = f"state(), dice(), {NEXT}"
    before = value(watched, see)
    cell = f"""def change(rank, world_size):
    {change}
    return rank

list(cl.launch(change, world_size=2))"""
    assert "[0, 1]" in value(watched, cell)
    assert seen(value(watched, see)) == seen(before)
    assert "True" in value(watched, "torch.get_num_threads() == threads")


def seen(text):
    """What was shown, without the line that tells how long the launch took."""
    return [line for line in text.splitlines() if "ranks on the" not in line]


@pytest.mark.fault(9, "random state: every launch draws anew")
def test_two_launches_draw_different_numbers(watched):
    cell = """def draw(rank, world_size):
    drawn = torch.rand(1).item(), random.random(), numpy.random.rand()
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    return drawn

numbers = [n for _ in range(2) for drawn in cl.launch(draw) for n in drawn]
len(numbers), len(set(numbers))"""
    assert "(12, 12)" in value(watched, cell)


@pytest.mark.fault(9, "questions ignored, then a timeout")
def test_a_rank_that_ignores_signals_is_still_ended(kernel):
    cell = """import signal
def deaf(rank, world_size):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    now()
    while True:
        time.sleep(1000)

cl.launch(deaf, world_size=2, timeout=5)"""
    text = failed(kernel, cell)
    assert "deaf on 2 ranks: not done after 5 s" in text
    assert "ranks 0, 1 were in an unknown place" in text
    assert launches(kernel)
