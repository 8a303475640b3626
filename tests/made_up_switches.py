"""Makes tables of switches from segments that a test describes, in exact integers, by the plainest rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Waits = Callable[[int, int], tuple[int, int]]
"""Returns shared and private waits, in cycles, of the instructions from one number up to another."""


@dataclass(frozen=True)
class Segment:
    """`Segment` is what one life runs between two switches.

    Attributes:
        asid, life, cause, syscall: As in the table of costs. The cause `none` means: before all switches.
        length: Its instructions.
        waits: The waits, as a function of the instructions since the switch. All are for data from memory.
        truncated: Whether the trace ends it.
    """

    asid: int
    life: int
    cause: str
    length: int
    waits: Waits
    syscall: int | None = None
    truncated: bool = False


def at_the_start(shared: int, private: int, within: int = 1) -> Waits:
    """Returns waits that are spread evenly over the first instructions, and none later."""

    def waits(start: int, stop: int) -> tuple[int, int]:
        def until(total: int, at: int) -> int:
            return total * min(at, within) // within

        return until(shared, stop) - until(shared, start), until(private, stop) - until(private, start)

    return waits


COSTS: dict[str, Any] = {
    "workload": pl.String,
    "machine": pl.String,
    "seed": pl.UInt64,
    "asid": pl.UInt32,
    "life": pl.UInt32,
    "cause": pl.String,
    "syscall": pl.UInt64,
}
"""The columns of the table of costs before its counts."""
CURVES: dict[str, Any] = {
    "workload": pl.String,
    "machine": pl.String,
    "seed": pl.UInt64,
    "asid": pl.UInt32,
    "life": pl.UInt32,
    "cause": pl.String,
    "interval": pl.UInt32,
    "number": pl.UInt32,
    "segments": pl.UInt64,
    "complete": pl.UInt64,
    "instructions": pl.UInt64,
    "cycles_shared": pl.UInt64,
    "cycles_private": pl.UInt64,
    "squares_shared": pl.Float64,
    "squares_private": pl.Float64,
    "squares_excess": pl.Float64,
    "max_shared": pl.UInt64,
    "max_private": pl.UInt64,
}
PAGES: dict[str, Any] = {
    "workload": pl.String,
    "machine": pl.String,
    "seed": pl.UInt64,
    "segment": pl.String,
    "asid": pl.UInt32,
    "page": pl.UInt64,
    "cause": pl.String,
    "fetches": pl.UInt64,
    "cycles_shared": pl.UInt64,
    "cycles_private": pl.UInt64,
}


def costs_of(
    segments: Iterable[Segment], workload: str = "w", machine: str = "m", seed: int = 0, cycles: int = 10
) -> pl.DataFrame:
    """Returns the table of costs. A miss of the one cache `l1` waits for `cycles`."""
    rows: dict[tuple[Any, ...], dict[str, int]] = {}
    for one in segments:
        shared, private = one.waits(0, one.length)
        extra = (shared - private) // cycles
        values = {
            "segments": int(one.cause != "none"),
            "segments.short": int(one.cause != "none" and one.length < 1000),
            "segments.truncated": int(one.truncated),
            "switches.same": 0,
            "instructions": one.length,
            "cycles.shared": one.length + shared,
            "cycles.private": one.length + private,
            "memory.fetch.cycles.shared": 0,
            "memory.fetch.cycles.private": 0,
            "memory.data.cycles.shared": shared,
            "memory.data.cycles.private": private,
            "write-buffer.cycles.shared": 0,
            "write-buffer.cycles.private": 0,
            "l1.misses.shared": shared // cycles,
            "l1.misses.private": private // cycles,
            "l1.misses.replaced": extra,
            "l1.misses.reordered": 0,
            "l1.lines.held": 4 * extra,
            "l1.lines.lost": 2 * extra,
            "l1.lines.restored": extra,
        }
        of = rows.setdefault((one.asid, one.life, one.cause, one.syscall), {})
        for name, value in values.items():
            of[name] = of.get(name, 0) + value
    schema = COSTS | dict.fromkeys(next(iter(rows.values())), pl.Int64)
    whole = [(workload, machine, seed, *key, *of.values()) for key, of in rows.items()]
    return pl.DataFrame(whole, schema=schema, orient="row")


def curves_of(
    segments: Sequence[Segment],
    workload: str = "w",
    machine: str = "m",
    seed: int = 0,
    lengths: Sequence[int] = (1_000, 10_000),
) -> pl.DataFrame:
    """Returns the table of curves: of all segments, of each cause, of each life."""
    counted = [one for one in segments if one.cause != "none"]
    groups: dict[tuple[int | None, int | None, str | None], list[Segment]] = {(None, None, None): counted}
    for one in counted:
        groups.setdefault((None, None, one.cause), []).append(one)
        groups.setdefault((one.asid, one.life, None), []).append(one)
    rows = []
    for key, of in groups.items():
        for interval in lengths:
            for number in range(100):
                row = _interval(of, interval, number)
                if row is not None:
                    rows.append((workload, machine, seed, *key, interval, number, *row))
    return pl.DataFrame(rows, schema=CURVES, orient="row")


def _interval(segments: Sequence[Segment], interval: int, number: int) -> tuple[Any, ...] | None:
    start = interval * number
    there = [one for one in segments if one.length > start]
    if not there:
        return None
    complete = [one for one in there if one.length >= start + interval]
    sums, squares = [0, 0, 0], [0.0, 0.0, 0.0]
    most: list[int | None] = [None, None]
    for one in there:
        stop = min(one.length, start + interval)
        ran = stop - start
        pieces = [ran + waits for waits in one.waits(start, stop)]
        sums = [sums[0] + ran, sums[1] + pieces[0], sums[2] + pieces[1]]
        for place, value in enumerate((*pieces, pieces[0] - pieces[1])):
            squares[place] += value**2 / ran
        if ran == interval:
            most = [max(before or 0, piece) for before, piece in zip(most, pieces, strict=True)]
    return (len(there), len(complete), *sums, *squares, *most)


def pages_of(workload: str = "w", machine: str = "m", seed: int = 0) -> pl.DataFrame:
    """Returns a small table of code pages."""
    rows = [
        (workload, machine, seed, "text of sort", 1, 0x40_0000, "involuntary", 900, 5_000 + seed, 1_000),
        (workload, machine, seed, "libc.so.6", 2, 0x7F00_0000_1000, "system-call", 500, 9_000, 1_000),
        (workload, machine, seed, "libc.so.6", 2, 0x7F00_0000_2000, "start", 50, 100, 100),
    ]
    return pl.DataFrame(rows, schema=PAGES, orient="row")
