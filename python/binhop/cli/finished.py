"""Keeps the finished parts of a command's work when the command ends early, or reports them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from binhop.cli import show
from binhop.kept import Kept, keeping, kept_beside
from binhop.numbers import several

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binhop.traces import Trace


@contextmanager
def telling(out: str) -> Iterator[None]:
    """Reports, when a command ends early, how many runs were kept and how to go on."""
    try:
        yield
    except BaseException:
        kept = Kept(kept_beside(out))
        if len(kept):
            runs = f"{several(len(kept), 'finished run')} {'are' if len(kept) != 1 else 'is'}"
            place = kept.directory
            show.say(f"binhop: {runs} kept in {place}; the same command goes on from there")
        raise


@contextmanager
def kept_for(out: str | None, *, several: bool) -> Iterator[Kept | None]:
    """Yields the place for a command's finished runs; None if the command keeps none."""
    if out is None or not several:
        yield None
        return
    with telling(out), keeping(out) as directory:
        yield Kept(directory)


def told(traces: Sequence[Trace], finished: int) -> str:
    """Reports the finished traces of a stopped command that keeps nothing. Returns a note for the result."""
    names = [trace.name for trace in traces]
    left = f"not finished: {', '.join(names[finished:])}"
    are = "are" if finished != 1 else "is"
    show.say(f"binhop: {finished} of {len(names)} traces {are} finished; {left}")
    return f"interrupted; {left}"
