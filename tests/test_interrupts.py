"""The first interrupt is heard, those that follow disturb nobody."""

import signal
import threading

import pytest

from course_lib.system.signals import at_most_one


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_is_heard_and_the_second_is_not():
    steps = []
    with pytest.raises(KeyboardInterrupt), at_most_one():
        try:
            interrupt()
        finally:
            interrupt()
            steps.append("cleaned up")
    assert steps == ["cleaned up"]


def test_interrupts_are_heard_again_after_the_block():
    with pytest.raises(KeyboardInterrupt), at_most_one():
        interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_that_does_not_raise_hears_each_interrupt():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with at_most_one():
            interrupt()
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT, signal.SIGINT]


def test_ignored_interrupts_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with at_most_one():
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_cannot_be_interrupted_and_changes_no_handler():
    handlers = []

    def inside():
        with at_most_one():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
