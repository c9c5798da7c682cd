"""The first interrupt of a launch is heard, the others change nothing."""

import signal
import threading

import pytest

from course_lib.interrupts import FirstInterrupt

INTERRUPT = signal.SIGINT


def test_the_first_interrupt_is_heard_and_the_second_is_not():
    with FirstInterrupt():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(INTERRUPT)
        signal.raise_signal(INTERRUPT)


def test_a_block_that_is_held_hears_none():
    with FirstInterrupt() as interrupt:
        interrupt.hold()
        signal.raise_signal(INTERRUPT)


def test_afterwards_interrupts_are_heard_as_before():
    before = signal.getsignal(INTERRUPT)
    with FirstInterrupt():
        assert signal.getsignal(INTERRUPT) != before
    assert signal.getsignal(INTERRUPT) == before


def test_a_handler_of_the_notebook_hears_every_one():
    heard = []
    before = signal.signal(INTERRUPT, lambda number, frame: heard.append(number))
    try:
        with FirstInterrupt():
            signal.raise_signal(INTERRUPT)
            signal.raise_signal(INTERRUPT)
    finally:
        signal.signal(INTERRUPT, before)
    assert heard == [INTERRUPT, INTERRUPT]


def test_a_notebook_that_ignores_interrupts_goes_on_to():
    before = signal.signal(INTERRUPT, signal.SIG_IGN)
    try:
        with FirstInterrupt():
            signal.raise_signal(INTERRUPT)
            assert signal.getsignal(INTERRUPT) == signal.SIG_IGN
    finally:
        signal.signal(INTERRUPT, before)


def test_a_thread_leaves_the_handler_alone():
    seen = []

    def work():
        with FirstInterrupt():
            seen.append(signal.getsignal(INTERRUPT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(INTERRUPT)]
