"""Serves a list of requests by a memory with a controller: when each is done, row hits, commands."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.arguments import shown
from binhop.errors import RequestError
from binhop.lazy_imports import pl
from binhop.numbers import counted
from binhop.request_files import read_requests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binhop.traces import ArrowStream

LINE = 64
"""The bytes that a request reads or writes."""

_LARGEST = 2**64 - 1
_COLUMNS = "requests have the columns arrival (in cycles of the memory) or arrival_ps, address and write"
_LIKE = 'write them like {"arrival": [0, 9], "address": [0, 64], "write": [False, True]}'


@dataclass(frozen=True)
class DramResult:
    """`DramResult` holds what a memory made of a list of requests. Cycles are those of the memory's clock.

    Attributes:
        requests: One row for each request, in order: arrival (cycle), address, write, entered (the cycle at
            which it entered its queue, because the queue had room), done (the cycle at which its data had
            passed the bus), row ("hit": its row was open; "miss": its bank had no open row; "conflict": its
            bank had to close another row first; "forwarded": a read got its data from the queue of writes).
        commands: One row for each command, in order: cycle, command, channel, rank, bank (in the rank,
            through its bank groups; null for commands to a whole rank), row (null for commands without one).
            None if commands were not asked for.
        counts: Each count by name. `summary` has their units and meanings.
        memory: The memory, resolved: each key of `[dram]`, each part and each timing by name.
        cycle_ps: The picoseconds of a cycle.
    """

    requests: pl.DataFrame
    commands: pl.DataFrame | None
    counts: dict[str, int]
    memory: dict[str, str | int]
    cycle_ps: int
    _declared: list[tuple[str, str, str]]

    @property
    def cycles(self) -> int:
        """The cycle at which the last data had passed the bus; 0 without requests."""
        return self.counts["cycles"]

    @property
    def mean_latency(self) -> float | None:
        """The mean cycles from the arrival of a read to the end of its data; None without reads."""
        reads = self.counts["reads"] + self.counts["forwarded"]
        return self.counts["latency"] / reads if reads else None

    @property
    def bandwidth(self) -> float | None:
        """The bytes per second on all buses, from the first arrival on; None without requests."""
        if self.requests.height == 0:
            return None
        cycles = self.cycles - int(self.requests["arrival"][0])
        lines = self.counts["reads"] + self.counts["writes"]
        return LINE * lines * 1e12 / (cycles * self.cycle_ps)

    def summary(self) -> pl.DataFrame:
        """Returns each count, the mean latency and the bandwidth: metric, unit, value, meaning."""
        rows: list[tuple[str, str, float | None, str]]
        rows = [(name, unit, float(self.counts[name]), meaning) for name, unit, meaning in self._declared]
        rows += [
            ("mean-latency", "memory cycles/read", self.mean_latency, "The latency of a read, on average."),
            (
                "bandwidth",
                "bytes/s",
                self.bandwidth,
                "Bytes on all buses per second, from the first arrival on.",
            ),
        ]
        types = {"metric": pl.String, "unit": pl.String, "value": pl.Float64, "meaning": pl.String}
        return pl.DataFrame(rows, schema=types, orient="row")

    def __repr__(self) -> str:
        hits, misses, conflicts = (self.counts[f"row-{of}"] for of in ("hits", "misses", "conflicts"))
        missed = counted(misses, "miss", "misses")
        rows = f"{counted(hits, 'row hit')}, {missed}, {counted(conflicts, 'conflict')}"
        requests = counted(self.requests.height, "request")
        return f"<DramResult: {requests} in {counted(self.cycles, 'cycle')}; {rows}>"


def dram(
    memory: str | Mapping[str, str | int],
    requests: Mapping[str, Any]
    | ArrowStream
    | pl.LazyFrame
    | Iterable[tuple[int, int, bool]]
    | str
    | os.PathLike[str],
    *,
    commands: bool = False,
) -> DramResult:
    """Serves requests by a memory with a controller, as it stands behind a machine with the section `[dram]`.

    Requests are served as if each had come from outside: none waits for another, except where a queue is
    full. docs/dram.md has the rules.

    Args:
        memory: A memory with a name (`binhop.dram_presets()`), or the keys of the section `[dram]` of a
            machine, as in `{"preset": "ddr4-2400", "queue": 16, "pages": "closed"}`.
        requests: A list of (arrival, address, write); or columns of these names as a mapping (to lists, NumPy
            arrays, …), a Polars frame, an Arrow table, or the path of a file: of Parquet, or a memory trace
            that `binhop export` wrote for ramulator2 (one request arrives in each cycle) or dramsim3. The
            arrival is a cycle of the memory's clock. A column `arrival_ps` in its place has picoseconds: the
            request arrives at the first cycle that does not begin before that. Arrivals do not decrease. The
            address is physical, in bytes; a request reads or writes the line of 64 bytes around it. `write`
            is true for a write.
        commands: Whether to keep the commands that the controller issued.

    Returns:
        The result: each request, the counts, and the commands if they were asked for.

    Raises:
        RequestError: The memory cannot be built, or a request is wrong: its arrival is before the one of the
            request ahead of it, or its address lies beyond the memory.

    >>> found = dram("ddr4-2400", [(0, 0, False), (200, 64, False), (400, 1 << 17, False)])
    >>> found.requests.select("done", "row").rows()
    [(36, 'miss'), (220, 'hit'), (452, 'conflict')]
    """
    frame = _frame(requests)
    of_arrival = [name for name in ("arrival", "arrival_ps") if name in frame]
    missing = [name for name in ("address", "write") if name not in frame]
    if len(of_arrival) != 1 or missing:
        raise RequestError(
            f"columns {', '.join(frame)}" if frame else "no columns", "requests", _COLUMNS, _LIKE
        )
    columns = {
        "arrival": _whole(frame[of_arrival[0]], of_arrival[0]),
        "address": _whole(frame["address"], "address"),
        "write": _truths(frame["write"]),
    }
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{len(column)} of {name}" for name, column in columns.items())
        raise RequestError(
            lengths, "requests", "each request has a value in each column", "mend the shorter columns"
        )
    outcome = _binhop.serve_requests(
        _keys(memory), pl.DataFrame(columns), picoseconds=of_arrival == ["arrival_ps"], commands=commands
    )
    served = pl.DataFrame(outcome.requests)
    last = served["done"].max()
    cycles = ("cycles", "memory cycles", "Cycles until the last data had passed the bus.")
    return DramResult(
        requests=served,
        commands=None if outcome.commands is None else pl.DataFrame(outcome.commands),
        counts={"cycles": 0 if last is None else int(last)}  # type: ignore[arg-type]
        | {name: value for name, _, _, value in outcome.counts},
        memory={name: int(text) if text.isdecimal() else text for name, text in outcome.memory},
        cycle_ps=outcome.cycle_ps,
        _declared=[cycles, *((name, unit, meaning) for name, unit, meaning, _ in outcome.counts)],
    )


def dram_presets() -> pl.DataFrame:
    """Returns the memories with a name: name, source (the part), bytes, parts, and timing in cycles.

    >>> dram_presets().filter(name="ddr4-2400").select("cycle-ps", "cl", "rcd", "rp").row(0)
    (833, 16, 16, 16)
    """
    rows = [
        {"name": name, "source": source, **dict(figures)} for name, source, figures in _binhop.dram_presets()
    ]
    return pl.DataFrame(rows)


def _keys(memory: str | Mapping[str, str | int]) -> list[tuple[str, str]]:
    if isinstance(memory, str):
        return [("preset", memory)]
    if not isinstance(memory, Mapping):
        rule = "a memory is a name, or the keys of the section [dram] of a machine"
        raise RequestError(
            shown(memory), "memory", rule, 'write it like {"preset": "ddr4-2400", "queue": 16}'
        )
    return [(str(name), str(value)) for name, value in memory.items()]


def _frame(requests: Any) -> dict[str, Any]:
    """Returns the columns of requests, as they were given."""
    if isinstance(requests, Mapping):
        return dict(requests)
    if isinstance(requests, pl.LazyFrame):
        requests = requests.collect()
    elif isinstance(requests, str) or hasattr(requests, "__fspath__"):
        requests = read_requests(os.fspath(requests))
    elif hasattr(requests, "__arrow_c_stream__"):
        requests = pl.DataFrame(requests)
    if isinstance(requests, pl.DataFrame):
        return {name: requests[name] for name in requests.columns}
    return _transposed(requests)


def _transposed(requests: Any) -> dict[str, list[Any]]:
    """Returns the columns of a list of (arrival, address, write)."""
    if not hasattr(requests, "__iter__"):
        raise RequestError(shown(requests), "requests", "requests are a table or a list", _LIKE)
    columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for number, request in enumerate(requests):
        try:
            arrival, address, write = request
        except (TypeError, ValueError):
            rule, remedy = "a request is (arrival, address, write)", "write it like (0, 0x1000, False)"
            raise RequestError(shown(request), f"requests: row {number}", rule, remedy) from None
        for column, value in zip(columns, (arrival, address, write), strict=True):
            column.append(value)
    return dict(zip(("arrival", "address", "write"), columns, strict=True))


def _column(values: Any, name: str) -> pl.Series | list[Any]:
    """Returns a column whose values have one type, or a list of any values."""
    if isinstance(values, pl.Series):
        return values
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise RequestError(shown(values), f"requests: {name}", "a column has a value for each request", _LIKE)
    return (
        pl.Series(values) if hasattr(values, "dtype") or hasattr(values, "__arrow_c_stream__") else [*values]
    )


def _whole(given: Any, name: str) -> pl.Series:
    """Returns a column of 64-bit unsigned integers. Another value is refused with its row."""
    rule = f"{'an address' if name == 'address' else 'an arrival'} is a whole number from 0 to {_LARGEST}"
    remedy = (
        "give whole numbers, in bytes"
        if name == "address"
        else "give whole numbers, from the first request on"
    )

    def refuse(value: object, row: int) -> RequestError:
        return RequestError(shown(value), f"requests: row {row}: {name}", rule, remedy)

    values = _column(given, name)
    if isinstance(values, list):
        for row, value in enumerate(values):
            try:
                is_whole = not isinstance(value, bool) and 0 <= operator.index(value) <= _LARGEST
            except TypeError:
                is_whole = False
            if not is_whole:
                raise refuse(value, row)
        return pl.Series([operator.index(value) for value in values], dtype=pl.UInt64)
    if not values.dtype.is_integer() and len(values):
        raise RequestError(f"values of type {values.dtype}", f"requests: {name}", rule, remedy)
    wrong = (values.is_null() | (values < 0).fill_null(True)).arg_true()
    if len(wrong):
        raise refuse(values[int(wrong[0])], int(wrong[0]))
    return values.cast(pl.UInt64)


def _truths(given: Any) -> pl.Series:
    """Returns a column of truth values; 0 and 1 stand for them."""
    rule, remedy = "a request writes (True or 1) or reads (False or 0)", "give one of them for each request"

    def refuse(value: object, row: int) -> RequestError:
        return RequestError(shown(value), f"requests: row {row}: write", rule, remedy)

    values = _column(given, "write")
    if isinstance(values, list):
        for row, value in enumerate(values):
            if not isinstance(value, bool | int) or value not in (0, 1):
                raise refuse(value, row)
        return pl.Series([bool(value) for value in values], dtype=pl.Boolean)
    if values.dtype != pl.Boolean and not values.dtype.is_integer() and len(values):
        raise RequestError(f"values of type {values.dtype}", "requests: write", rule, remedy)
    wrong = (
        (~values.is_in([0, 1]) if values.dtype.is_integer() else values.is_null()).fill_null(True).arg_true()
    )
    if len(wrong):
        raise refuse(values[int(wrong[0])], int(wrong[0]))
    return values.cast(pl.Boolean)


__all__ = ["LINE", "DramResult", "dram", "dram_presets"]
