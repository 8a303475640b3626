"""Does work that needs no simulation while the simulation runs.

The end of a reproduction uses one processor: it imports the libraries of its figures and computes the model
of the paper. A study leaves processors idle between two runs, so this work is done beside the study.

`binhop.lazy_imports.load` does not delay Ctrl-C in a thread, and need not: the interruption reaches the main
thread only, and the import that has begun is completed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@contextmanager
def ahead(work: Iterable[Callable[[], object]], *, threads: int | None = None) -> Iterator[None]:
    """Does the work piece by piece in a thread, until the block ends. A piece keeps its value by itself.

    The end of the block waits for the piece that has begun, and drops the others: they are done where their
    value is used. An error of a piece is raised there, too. With one thread nothing is done ahead.
    """
    ended = Event()

    def do() -> None:
        for piece in work:
            if ended.is_set():
                return
            with suppress(Exception):
                piece()

    thread = Thread(target=do, name="ahead")
    if threads != 1:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if threads != 1:
            thread.join()
