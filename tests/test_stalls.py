"""A launch stands still when all its ranks wait and go on waiting; a slow one works."""

import pytest

from course_lib.launching.watchdog import responder
from course_lib.launching.watchdog.responder import Answer
from course_lib.launching.watchdog.stall import RankState, Watch, rank_state
from course_lib.stacks import Frame
from course_lib.system.processes import Activity
from course_lib.tracing.flight_recorder import Call

CELL = "/tmp/ipykernel_7/1.py"
TORCH = "/lib/python3/site-packages/torch"
C10D = f"{TORCH}/distributed/distributed_c10d.py"
LOGGER = f"{TORCH}/distributed/c10d_logger.py"
RENDEZVOUS = "/course/course_lib/launching/rendezvous.py"
LEARNER = Frame(CELL, 3, "train")
THREADING = "/lib/python3/threading.py"
WAITS = [RankState(0, "waits", "barrier"), RankState(1, "waits", "all_reduce")]


@pytest.fixture(autouse=True)
def libraries(monkeypatch):
    """Paths of the recorded stacks count as libraries."""
    monkeypatch.setattr("course_lib.stacks._LIBRARIES", ("/lib/", "/course/"))


def asleep(*seconds):
    return {rank: Activity("S", one) for rank, one in enumerate(seconds)}


def watch(looks, answers, *, patience=1800.0, count=30):
    """The times at which the launch was found to stand still; a look each half second.

    `looks[i]` and `answers[i]` are what was seen at the i-th look; the last one stays.
    """
    watched, found = Watch(), []
    for number in range(count):
        seen = looks[min(number, len(looks) - 1)]
        if watched.look(seen, number / 2):
            told = answers[min(number, len(answers) - 1)]
            if watched.told(told, number / 2, patience=patience):
                found.append(number / 2)
    return found


def test_ranks_that_wait_are_reported_within_three_seconds():
    assert watch([asleep(1.0, 1.0)], [WAITS])[0] <= 3.0


def test_a_rank_that_computes_is_no_stall():
    busy = [{0: Activity("S", 1.0), 1: Activity("R", 0.5 * n)} for n in range(30)]
    assert watch(busy, [WAITS]) == []


def test_a_rank_that_waits_for_its_disk_is_no_stall():
    assert watch([{0: Activity("S", 1.0), 1: Activity("D", 1.0)}], [WAITS]) == []


def test_a_rank_that_sleeps_in_its_own_line_is_no_stall():
    works = [WAITS[0], RankState(1, "works")]
    assert watch([asleep(1.0, 1.0)], [works]) == []


def test_gloos_threads_that_look_for_messages_are_at_rest():
    looks = [asleep(1 + 0.001 * n, 1 + 0.002 * n) for n in range(30)]
    assert watch(looks, [WAITS])


def test_the_threads_of_many_groups_look_more_often():
    looks = [{0: Activity("S", 1 + 0.012 * n, groups=8)} for n in range(30)]
    assert watch(looks, [WAITS])
    assert not watch([{0: look[0]._replace(groups=1)} for look in looks], [WAITS])


def test_ranks_that_wait_at_another_place_each_time_go_on():
    moves = [
        [RankState(0, "waits", "barrier", calls=(n,)), WAITS[1]] for n in range(30)
    ]
    assert watch([asleep(1.0, 1.0)], moves) == []


def test_work_between_two_answers_begins_the_rest_anew():
    looks = [asleep(1.0, 1.0)] * 4 + [asleep(1.0, 1.4)] + [asleep(1.0, 1.4)] * 30
    calm = watch([asleep(1.0, 1.0)], [WAITS])[0]
    assert watch(looks, [WAITS])[0] > calm


def test_a_stopped_rank_and_one_that_waits_are_a_stall():
    seen = {0: Activity("S", 1.0), 1: Activity("T", 0.2)}
    assert watch([seen], [[WAITS[0], RankState(1, "stopped")]])


def test_a_stopped_rank_may_go_on_within_ten_seconds():
    seen = {0: Activity("S", 1.0), 1: Activity("T", 0.2)}
    assert watch([seen], [[WAITS[0], RankState(1, "stopped")]])[0] > 10


def test_while_a_rank_is_stopped_another_may_look_for_messages():
    looks = [{0: Activity("S", 1.0), 1: Activity("T", 0.2)}] * 12
    looks += [{0: Activity("S", 1.2), 1: Activity("T", 0.2)}]
    assert watch(looks, [[WAITS[0], RankState(1, "stopped")]])[0] < 12


def test_the_ten_seconds_begin_anew_when_a_stopped_rank_goes_on():
    stopped = {0: Activity("S", 1.0), 1: Activity("T", 0.2)}
    looks = [stopped] * 12 + [{0: Activity("S", 1.0), 1: Activity("R", 0.2)}, stopped]
    late = watch(looks, [[WAITS[0], RankState(1, "stopped")]], count=60)
    assert late and late[0] > 16


def test_a_rank_held_by_a_debugger_is_no_stall():
    seen = {0: Activity("S", 1.0), 1: Activity("t", 0.2)}
    assert watch([seen], [[WAITS[0], RankState(1, "works")]]) == []


def test_a_rank_that_returned_and_one_that_waits_are_a_stall():
    assert watch([asleep(1.0)], [[WAITS[0], RankState(1, "returned")]])


def test_without_a_look_at_processes_nothing_is_asked():
    assert watch([{}], [WAITS]) == []


def test_a_group_that_gives_up_soon_may_do_so_itself():
    assert watch([asleep(1.0, 1.0)], [WAITS], patience=5.0)[0] > 5.0


def stands(*stacks, calls=(), awaited="", last=False):
    return rank_state(1, Answer(stacks, calls, awaited=awaited), last)


def call(name, *, done=False):
    return Call("0", 1, name, "f32[10]", done)


def collective(name):
    """A stack in which a rank waits in a collective of torch.distributed."""
    inner = [Frame(LOGGER, 79, "wrapper"), Frame(C10D, 9, name)]
    return [LEARNER, *inner, Frame(RENDEZVOUS, 71, "wait")]


@pytest.mark.parametrize("name", ["all_reduce", "barrier", "send", "recv"])
def test_a_rank_waits_in_the_function_that_the_learner_called(name):
    assert (stands(collective(name)).state, stands(collective(name)).call) == (
        "waits",
        name,
    )


def test_a_rank_waits_for_others_to_join_the_group():
    stack = [LEARNER, Frame(C10D, 1, "init_process_group")]
    assert stands(stack).call == "init_process_group"
    connects = [*stack, Frame(RENDEZVOUS, 31, "create")]
    assert stands(connects).call == "init_process_group"


def test_a_rank_waits_in_backward_if_a_collective_is_not_done():
    stack = [LEARNER, Frame(f"{TORCH}/_tensor.py", 630, "backward")]
    stack.append(Frame(f"{TORCH}/autograd/graph.py", 8, "_engine_run_backward"))
    assert stands(stack, calls=(call("all_reduce"),)).call == "all_reduce of backward"
    assert stands(stack, calls=(call("all_reduce", done=True),)).state == "works"


def test_a_rank_waits_for_the_work_that_it_started():
    stack = [LEARNER, Frame(RENDEZVOUS, 71, "wait")]
    assert stands(stack, awaited="broadcast").call == "wait() of broadcast"
    assert stands(stack).call == "wait()"


def test_a_rank_waits_for_a_key_of_a_store():
    stack = [LEARNER, Frame(RENDEZVOUS, 99, "from_store")]
    assert stands(stack, awaited="store.get('k')").call == "store.get('k')"
    joins = [LEARNER, Frame(C10D, 1, "init_process_group"), stack[1]]
    assert stands(joins).call == "init_process_group"


def test_a_rank_in_a_line_of_the_learners_own_works():
    assert stands([LEARNER]).state == "works"
    assert stands([LEARNER], calls=(call("all_reduce"),)).state == "works"


def test_a_rank_in_another_library_works():
    stack = [LEARNER, Frame(f"{TORCH}/utils/data/dataloader.py", 1, "_try_get_data")]
    assert stands(stack).state == "works"


def test_a_layer_inside_ddp_works():
    ddp = Frame(f"{TORCH}/nn/parallel/distributed.py", 5, "forward")
    conv = Frame(f"{TORCH}/nn/modules/conv.py", 5, "forward")
    assert stands([LEARNER, ddp]).state == "waits"
    assert stands([LEARNER, ddp, conv]).state == "works"


def test_a_rank_with_a_thread_at_work_works():
    assert stands([Frame(CELL, 9, "load")], collective("barrier")).state == "works"


def test_a_rank_that_waits_for_a_thread_which_waits_for_a_rank_waits():
    joins = [LEARNER, Frame(THREADING, 1, "join")]
    assert stands(collective("recv"), joins).call == "recv"
    assert stands(joins).state == "works"


def test_threads_of_libraries_do_not_count():
    bar = [Frame("/lib/tqdm.py", 1, "run"), Frame(THREADING, 1, "wait")]
    pool = [Frame("/lib/python3/concurrent/futures/thread.py", 1, "_worker")]
    feed = [Frame("/lib/queues.py", 1, "_feed"), Frame(THREADING, 1, "wait")]
    assert stands(bar, pool, feed, collective("barrier")).state == "waits"


def test_the_thread_that_answers_for_a_rank_does_not_count(monkeypatch):
    monkeypatch.setattr(responder, "__file__", "/course/responder.py")
    answers = [Frame(THREADING, 1, "run"), Frame(responder.__file__, 2, "_answer")]
    assert stands(answers, collective("barrier")).state == "waits"


def test_a_timer_may_yet_wake_the_others():
    timer = [Frame(THREADING, 1, "run"), Frame(THREADING, 2, "wait")]
    assert stands(timer, collective("barrier")).state == "works"
    called = [Frame(THREADING, 1, "run"), Frame("/lib/futures/thread.py", 2, "run")]
    assert stands(called, collective("barrier")).state == "works"


def test_at_the_end_it_is_enough_that_the_main_thread_waits():
    beats = [Frame(CELL, 9, "heartbeat")]
    assert stands(beats, collective("barrier")).state == "works"
    assert stands(beats, collective("barrier"), last=True).call == "barrier"
    assert stands(collective("barrier"), beats, last=True).state == "works"


def test_a_pool_that_is_joined_may_be_at_work():
    pool = Frame("/lib/python3/multiprocessing/pool.py", 1, "join")
    joins = [LEARNER, pool, Frame(THREADING, 1, "join")]
    assert stands(collective("recv"), joins).state == "works"


def test_a_functional_collective_waits_in_an_operator():
    inner = Frame(f"{TORCH}/distributed/_functional_collectives.py", 1, "wait_tensor")
    stack = [LEARNER, inner, Frame(f"{TORCH}/_ops.py", 1, "__call__")]
    assert stands(stack).call == "wait_tensor"


def test_names_of_functions_inside_torch_are_not_told():
    inner = [Frame(C10D, 1, "_hidden"), Frame(C10D, 2, "inner_func")]
    assert stands([LEARNER, *inner, *collective("gather")[1:]]).call == "gather"


def test_a_call_with_a_time_limit_of_its_own_ends_by_itself():
    waits = collective("monitored_barrier")
    limited = [*waits[:-1], Frame(RENDEZVOUS, 90, "limited"), waits[-1]]
    assert stands(waits).state == "waits"
    assert stands(limited).state == "works"


def test_an_answer_is_as_patient_as_the_call_that_waits():
    soon = Call("1", 1, "barrier", "", False, 6.0)
    assert Answer(calls=(soon, call("all_reduce")), limit=1800.0).patience == 6.0
    assert Answer(calls=(soon._replace(done=True),), limit=50.0).patience == 50.0
