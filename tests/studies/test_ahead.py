"""Work that needs no simulation is done beside it, and is left where the simulation ends first."""

from __future__ import annotations

import threading

import pytest

from binhop.reproduce.ahead import ahead


class SlowPiece:
    """A piece of work that ends only when the block has let it go."""

    def __init__(self) -> None:
        self.began, self.let_go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self.let_go.wait(30)
        self.ended.set()

    def let_go_soon(self) -> None:
        """Waits until the piece has begun, and lets it go while the block ends."""
        assert self.began.wait(30)
        threading.Timer(0.2, self.let_go.set).start()


def test_the_pieces_follow_each_other_beside_the_block() -> None:
    done: list[int] = []
    last = threading.Event()

    def fail() -> None:
        raise ValueError("a piece that fails raises its error where its value is used")

    with ahead([lambda: done.append(1), fail, lambda: done.append(2), last.set]):
        assert last.wait(30)
    assert done == [1, 2]


def test_the_end_of_the_block_waits_for_one_piece_and_drops_the_others() -> None:
    slow, done = SlowPiece(), list[int]()
    with ahead([slow, lambda: done.append(2)]):
        slow.let_go_soon()
    assert slow.ended.is_set()
    assert done == []
    assert not [each for each in threading.enumerate() if each.name == "ahead"]


def test_one_thread_does_nothing_ahead() -> None:
    done: list[int] = []
    with ahead([lambda: done.append(1)], threads=1):
        pass
    assert done == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_of_the_block_is_passed_on_when_the_thread_has_ended(error: type[BaseException]) -> None:
    slow, done = SlowPiece(), list[int]()

    def fail() -> None:
        with ahead([slow, lambda: done.append(2)]):
            slow.let_go_soon()
            raise error

    with pytest.raises(error):
        fail()
    assert slow.ended.is_set()
    assert done == []
    assert not [each for each in threading.enumerate() if each.name == "ahead"]
