"""Work that needs no simulation is done beside it, and is left where the simulation ends first."""

from __future__ import annotations

import threading

import pytest

from binhop.reproduce.ahead import ahead


def test_the_pieces_follow_each_other_beside_the_block() -> None:
    done: list[int] = []
    last = threading.Event()

    def fail() -> None:
        raise ValueError("a piece that fails raises its error where its value is used")

    with ahead([lambda: done.append(1), fail, lambda: done.append(2), last.set]):
        assert last.wait(30)
    assert done == [1, 2]


def test_the_end_of_the_block_waits_for_one_piece_and_drops_the_others() -> None:
    began, let_go = threading.Event(), threading.Event()
    done: list[int] = []

    def slow() -> None:
        began.set()
        assert let_go.wait(30)
        done.append(1)

    with ahead([slow, lambda: done.append(2)]):
        assert began.wait(30)
        threading.Timer(0.2, let_go.set).start()
    assert done == [1]
    assert not [each for each in threading.enumerate() if each.name == "ahead"]


def test_one_thread_does_nothing_ahead() -> None:
    done: list[int] = []
    with ahead([lambda: done.append(1)], threads=1):
        pass
    assert done == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_of_the_block_is_passed_on_when_the_thread_has_ended(error: type[BaseException]) -> None:
    began, let_go = threading.Event(), threading.Event()
    done: list[int] = []

    def slow() -> None:
        began.set()
        assert let_go.wait(30)
        done.append(1)

    def fail() -> None:
        with ahead([slow, lambda: done.append(2)]):
            assert began.wait(30)
            threading.Timer(0.2, let_go.set).start()
            raise error

    with pytest.raises(error):
        fail()
    assert done == [1]
    assert not [each for each in threading.enumerate() if each.name == "ahead"]
