"""Reads JM97's figures, and repeats its arithmetic exactly."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from binhop.lazy_imports import pl

HERE = Path(__file__).parent
TOTAL, WEIGHTED = "total", "weighted average"
"""The last rows of Tables 4, and 3 and 5."""


def expected() -> pl.DataFrame:
    """Returns the document's figures, one figure in each row, as the document prints them."""
    return pl.read_csv(HERE / "expected.csv", glob=False, infer_schema=False)


def printed(table: str, row: str, quantity: str, side: str | None = None) -> str:
    """Returns a figure as the document prints it.

    >>> printed("Table 3", "gcc", "cpi"), printed("Table 1", "level-1 miss", "percent", "data")
    ('0.097', '0.06')
    """
    rows = expected().filter(table=table, row=row, quantity=quantity)
    if side is not None:
        rows = rows.filter(side=side)
    value: str = rows["value"].item()
    return value


def exact(table: str, row: str, quantity: str, side: str | None = None) -> Decimal:
    """Returns a figure as the exact number that the document prints."""
    return Decimal(printed(table, row, quantity, side))


def column(table: str, quantity: str, side: str | None = None) -> dict[str, Decimal]:
    """Returns a column of a table, with the rows in the document's order.

    >>> [*column("Table 2", "cpi")]
    ['Ultrix', 'OSF/1', 'Mach3', 'Mach3+AFSin', 'Mach3+AFSout']
    """
    rows = expected().filter(table=table, quantity=quantity)
    if side is not None:
        rows = rows.filter(side=side)
    return {row: Decimal(value) for row, value in rows.select("row", "value").iter_rows()}


@dataclass(frozen=True)
class Cause:
    """`Cause` is a row of Table 4.

    Attributes:
        name: The cause, as in `translation.cycles.NAME`.
        frequency: How often it happens, per instruction.
        penalty: What it costs each time, in cycles.
        cpi: The overhead as it is printed, in cycles per instruction.
    """

    name: str
    frequency: Decimal
    penalty: int
    cpi: Decimal

    @property
    def recomputed(self) -> Decimal:
        """The overhead from frequency and penalty, exactly."""
        return self.frequency * self.penalty


EVENTS = {
    "data-miss": "level-2 miss of a load or store, and of a handler's entry",
    "fetch-miss": "level-2 miss of a fetch",
    "handler-data": "handler: level-1 miss of data",
    "root-entry": "handler: root entry from memory",
    "user-entry": "handler: user entry from memory",
    "handler-code": "handler: level-1 miss of code",
    "handler-code-memory": "handler: level-2 miss of code",
}
"""The events of Table 4 in its order, by their causes."""


def causes() -> list[Cause]:
    """Returns the seven rows of Table 4, in its order."""
    return [
        Cause(
            name,
            exact("Table 4", name, "frequency"),
            int(printed("Table 4", name, "penalty-cycles")),
            exact("Table 4", name, "cpi"),
        )
        for name in EVENTS
    ]


def of_total(values: dict[str, Decimal]) -> tuple[dict[str, Decimal], Decimal | None]:
    """Returns a column without its weighted average, and this average."""
    rows = {name: value for name, value in values.items() if name != WEIGHTED}
    return rows, values.get(WEIGHTED)


def modification_cycles() -> int:
    """Returns the cycles of a change of a page's protection (§5.4): lines updated, and lines only checked.

    >>> modification_cycles()
    6908
    """
    lines = int(printed("text", "page", "lines"))
    cycles = 0
    for level in ("level 1", "level 2"):
        updated, update, check = (
            int(printed("text", level, quantity))
            for quantity in ("lines-updated", "update-cycles", "check-cycles")
        )
        cycles += updated * update + (lines - updated) * check
    return cycles


def modification_cpi(per_million: Decimal) -> Decimal:
    """Returns the overhead of so many changes of protection per million instructions, exactly."""
    return modification_cycles() * per_million / 1_000_000


def modifications_weighted() -> Fraction:
    """Returns Table 5's changes of protection per million instructions, weighted by instructions.

    The instructions of a workload are its modifications divided by its rate.
    """
    counts, _ = of_total(column("Table 5", "modifications"))
    rates, _ = of_total(column("Table 5", "per-million-instructions"))
    instructions = sum((Fraction(counts[name]) / Fraction(rates[name]) for name in counts), Fraction())
    return Fraction(sum(counts.values())) / instructions


def with_write_backs() -> Decimal:
    """Returns Table 3's average with the write-backs of §5.3: half of all misses translate twice."""
    return exact("Table 3", WEIGHTED, "cpi") * exact("text", "write-backs", "factor")
