"""What several functions take, checked: thread counts, and numbers of references or instructions."""

from __future__ import annotations

import os

from binhop.errors import RequestError


def thread_count(threads: int | None) -> int:
    """How many threads to use; all there are unless told otherwise.

    >>> thread_count(2)
    2
    """
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise RequestError(str(threads), "threads", "a run needs a thread", "ask for 1 thread or more")
    return threads


def whole_number(number: int | None, name: str) -> int | None:
    """The number, if it can be one of references or instructions: not negative, below 2^63.

    >>> whole_number(50_000_000, "length"), whole_number(None, "length")
    (50000000, None)
    """
    if number is not None and not 0 <= number < 2**63:
        raise RequestError(
            str(number), name, "must be a whole number, not negative", "give a number like 50_000_000"
        )
    return number
