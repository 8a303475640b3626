"""Adds up the progress of several passes over traces, and estimates the time that is left.

A pass is one reading of one trace. `Passes` adds passes up, so that the progress is one total that never
goes back. `Pace` estimates the time that is left from the second half of the time so far. That half soon
excludes a slow start (set-up, caches and tables that fill), and is long enough to even out later changes.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import TYPE_CHECKING

from binhop.arguments import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binhop.traces import Trace

    Tell = Callable[[int, int | None], object]
    """Takes the references done and, if known, to do."""
    Watch = Callable[[str, int, int | None], object]
    """Takes the title of the present work as well."""

_MOST_SAMPLES = 2000


class Pace:
    """`Pace` measures references done over time.

    >>> now = iter([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> pace = Pace(clock=lambda: next(now))
    >>> for done in (5, 10, 110, 210):  # slow at first, then 100 a second
    ...     pace.note(done)
    >>> pace.left(510)  # three more seconds, one of which has gone by
    2.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: list[float] = []
        self._done: list[int] = []

    def note(self, done: int) -> None:
        """Notes the number of references done now."""
        if done <= 0 or (self._done and done <= self._done[-1]):
            return  # the time before the first reference is set-up
        self._times.append(self._clock())
        self._done.append(done)
        if len(self._times) > _MOST_SAMPLES:
            del self._times[1:-1:2], self._done[1:-1:2]

    def rate(self) -> float | None:
        """Returns the recent rate in references a second; None while it is not known."""
        if len(self._times) < 2 or self._times[-1] <= self._times[0]:
            return None
        middle = self._times[0] + (self._times[-1] - self._times[0]) / 2
        since = min(bisect_right(self._times, middle) - 1, len(self._times) - 2)
        return (self._done[-1] - self._done[since]) / (self._times[-1] - self._times[since])

    def left(self, of: int | None) -> float | None:
        """Returns the seconds until `of` references are done; None while that is not known."""
        rate = self.rate()
        if of is None or rate is None:
            return None
        return max(0.0, (of - self._done[-1]) / rate - (self._clock() - self._times[-1]))


class Passes:
    """`Passes` adds up the passes of a command, one after the other.

    >>> seen = []
    >>> passes = Passes(lambda done, of: seen.append((done, of)), [100, 50])
    >>> first, second = passes.next(), passes.next()
    >>> first(60, 100), second(10, 50)
    (None, None)
    >>> seen
    [(60, 150), (110, 150)]
    """

    def __init__(self, tell: Tell, lengths: Iterable[int | None] = ()) -> None:
        self._tell = tell
        self._lengths = [*lengths]
        self._done: list[int] = []

    def expect(self, lengths: Iterable[int | None]) -> None:
        """Announces more passes with these numbers of references; None for a number that is not known."""
        self._lengths += lengths

    def next(self) -> Tell:
        """Starts the next pass, and returns the function that takes its progress."""
        number = len(self._done)
        self._done.append(0)
        if number == len(self._lengths):
            self._lengths.append(None)

        def tell(done: int, of: int | None) -> None:
            for earlier in range(number):  # earlier passes have ended, whatever progress they reported last
                self._done[earlier] = self._lengths[earlier] or self._done[earlier]
            self._done[number] = max(done, self._done[number])
            if of is not None:
                self._lengths[number] = of
            self._tell(sum(self._done), self._total(number))

        return tell

    def _total(self, now: int) -> int | None:
        """Returns the references of all passes. A later pass of unknown length counts as the known mean."""
        rest = self._lengths[now:]
        known = [length for length in [*self._done[:now], *rest] if length is not None]
        if rest[0] is None:
            return None
        return sum(known) + rest.count(None) * (sum(known) // len(known))


def references_of(trace: Trace, length: int | str | None) -> int | None:
    """Returns the references of a pass over this much of a trace, if they are known without reading it."""
    length = whole_number(length, "length")
    if trace.endless:
        return length
    known = trace.references
    return known if known is None or length is None else min(known, length)


__all__ = ["Pace", "Passes", "references_of"]
