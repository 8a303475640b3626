"""Checks the numbers that functions take: counts, seeds, shares, threads.

A count is an integer, or a text in the form of the command line: `length=2_000_000` equals `length="2M"`.
"""

from __future__ import annotations

import operator
import os
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from binhop import _binhop
from binhop.errors import RequestError
from binhop.numbers import count

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 2**63 - 1
"""The largest count."""
LAST_SEED = 2**64 - 1
SEEDS = 32
"""The default number of placements in a run."""

MOST_PLACEMENTS = 1024
"""The default of the greatest number of placements, where a precision decides their number."""


def thread_count(threads: int | str | None, name: str = "threads") -> int:
    """Returns the number of threads to use. None stands for all threads that the process may use.

    >>> thread_count(2)
    2
    """
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return whole_number(threads, name, least=1)


@overload
def whole_number(number: None, name: str, *, least: int = 0, most: int = MOST) -> None: ...
@overload
def whole_number(number: int | str, name: str, *, least: int = 0, most: int = MOST) -> int: ...
@overload
def whole_number(number: int | str | None, name: str, *, least: int = 0, most: int = MOST) -> int | None: ...
def whole_number(number: object, name: str, *, least: int = 0, most: int = MOST) -> int | None:
    """Returns the number, if it is a whole number within the bounds. None stays None.

    >>> whole_number(50_000_000, "length"), whole_number("50M", "length"), whole_number(None, "length")
    (50000000, 50000000, None)
    """
    if number is None:
        return None
    given = count(number, name) if isinstance(number, str) else number
    return integer(given, name, least=least, most=most)


def integer(number: object, name: str, *, least: int = 0, most: int = MOST) -> int:
    """Returns the number, if it is an integer within the bounds. A text is refused."""
    try:
        if isinstance(number, bool):
            raise TypeError
        given = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise RequestError(shown(number), name, "must be a whole number", _like(name, least)) from None
    if not least <= given <= most:
        low = f"at least {least}" if least else "not negative"
        rule = f"must be a whole number, {low if given < least else f'at most {most}'}"
        raise RequestError(str(number), name, rule, _like(name, least))
    return given


def share_of_one(number: object, name: str, remedy: str) -> float:
    """Returns the number, if it lies between 0 and 1, both excluded."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
        raise RequestError(shown(number), name, f"a {name.lstrip('-')} lies between 0 and 1", remedy)
    return float(number)


def seed_numbers(seeds: int | str | Iterable[int] | None, *, random: bool) -> list[int]:
    """Returns the seeds of the placements that are asked for.

    >>> seed_numbers(2, random=True), seed_numbers([7, 3], random=True), seed_numbers(None, random=False)
    ([0, 1], [7, 3], [0])
    """
    if seeds is None:
        return list(range(SEEDS if random else 1))
    if isinstance(seeds, str) or not hasattr(seeds, "__iter__"):
        if (number := whole_number(seeds, "seeds")) < 1:
            rule = "a run needs at least one placement"
            raise RequestError(str(seeds), "seeds", rule, f"ask for 1 or more; the default is {SEEDS}")
        _not_too_many(number)
        return list(range(number))
    numbers = list(islice(seeds, _binhop.MOST_SEEDS + 1))
    _not_too_many(len(numbers))
    return [seed_number(number, "seeds") for number in numbers]


def seed_number(seed: int, name: str = "seed") -> int:
    """Returns the seed, if it is valid."""
    number = integer(seed, name, least=-MOST, most=2 * LAST_SEED)
    if not 0 <= number <= LAST_SEED:
        rule = f"a seed is a number from 0 to {LAST_SEED}"
        raise RequestError(str(number), name, rule, "give another number")
    return number


def counts(numbers: Iterable[int | str], name: str, *, least: int = 0, most: int = MOST) -> list[int]:
    """Returns several counts, each within the bounds."""
    given = [whole_number(number, name, least=least, most=most) for number in listed(numbers, name)]
    if None in given:
        raise RequestError("None", name, "must be whole numbers", f"write it like {name}=[1, 2]")
    return given


def listed(values: Any, name: str) -> list[Any]:
    """Returns the values as a list. A text or a single value is refused."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise RequestError(shown(values), name, "takes a list", f"write it like {name}=[…]")
    return [*values]


def shown(value: object) -> str:
    """Returns a value as errors show it: short, and in quotes if it is a text."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _like(name: str, least: int) -> str:
    few = {"seed": 3, "seeds": 32, "threads": 2, "rows": 10, "colors": 64, "pages": 64}
    return f"write it like {name}={max(few.get(name, 50_000_000 if least < 2 else 1000), least)}"


def _not_too_many(seeds: int) -> None:
    if seeds > _binhop.MOST_SEEDS:
        rule = f"one run makes at most {_binhop.MOST_SEEDS} placements"
        raise RequestError(
            str(seeds), "seeds", rule, "ask for fewer, or make several runs with seeds of their own"
        )


__all__ = ["MOST", "SEEDS", "counts", "integer", "listed", "seed_number", "seed_numbers", "share_of_one"]
__all__ += ["shown", "thread_count", "whole_number"]
