"""A call in a thread of its own is waited for as long as asked, joined while it runs, and then made anew."""

from __future__ import annotations

import threading

import pytest

from dpxplain.phases.concurrency import TimeLimited

LONG = 60.0  # seconds; only a broken test waits for them


def test_a_call_is_joined_while_it_runs_and_made_anew_afterwards() -> None:
    made, goes_on = [], threading.Event()

    def hang() -> int:
        made.append(1)
        assert goes_on.wait(LONG)
        return len(made)

    call = TimeLimited(hang, "hangs")
    assert not call.is_running
    for _ in range(2):
        with pytest.raises(TimeoutError):
            call(0.01)
    assert call.is_running
    goes_on.set()
    assert call(LONG) in (1, 2)  # the second one if the first has ended already
    assert not call.is_running
    before = len(made)
    assert call(LONG) == before + 1


def test_the_error_of_a_call_is_raised_where_it_is_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        TimeLimited(lambda: 1 // 0, "fails")(LONG)
