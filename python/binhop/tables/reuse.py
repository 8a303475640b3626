"""Makes the tables of reuse distances: the miss ratio by size, and the misses of processes and segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.numbers import grouped, size_in_bytes
from binhop.tables.form import Table
from binhop.tables.translation import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKED = (32 << 10, 256 << 10, 2 << 20)
"""The sizes at which the misses of processes and segments are shown."""
MOST = 12
"""The most processes or segments in a table."""


def reuse_tables(
    distances: pl.DataFrame, curve: pl.DataFrame, simulated: pl.DataFrame, unit: str
) -> list[Table]:
    """Returns the tables of each workload."""
    made = []
    for workload in curve["workload"].unique(maintain_order=True):
        made.append(_curve(workload, curve.filter(workload=workload), simulated.filter(workload=workload)))
        for group, what in (("process", "processes"), ("segment", "segments")):
            rows = distances.filter(workload=workload, group=group)
            if rows["name"].n_unique() > 1:
                made.append(_groups(f"{workload}: {what}", group, rows, size_in_bytes(unit)))
    return made


def _curve(workload: str, curve: pl.DataFrame, simulated: pl.DataFrame) -> Table:
    """Returns the table of a workload's curve, with the simulated points beside it."""
    points = {row["size"]: row for row in simulated.iter_rows(named=True)}
    heads = ["size", "units", "misses", "miss ratio"]
    if points:
        ways = next(iter(points.values()))["ways"]
        heads += [f"{ways} ways", "least", "largest"]
    rows = []
    sizes = {row["size"]: row for row in curve.iter_rows(named=True)}
    for size in sorted({*sizes, *points}):
        row, point = sizes.get(size), points.get(size)
        cells = [memory(size)]
        if row is None:
            cells += ["", "", ""]
        else:
            cells += [grouped(row["units"]), grouped(row["misses"]), percent(row["miss_ratio"])]
        if points:
            parts = ("mean", "least", "largest")
            cells += ["", "", ""] if point is None else [percent(point[part]) for part in parts]
        rows.append(tuple(cells))
    title = f"{workload}: misses of a fully associative LRU cache"
    if points:
        title += ", and simulated caches"
    return Table(title, tuple(heads), tuple(rows), right=len(heads) - 1)


def _groups(title: str, head: str, rows: pl.DataFrame, width: int) -> Table:
    """Returns the table of the groups with the most accesses."""
    sizes = [size for size in ASKED if size > width]
    missed = [
        pl.col("accesses")
        .filter(pl.col("distance").is_null() | (pl.col("distance") >= size // width))
        .sum()
        .alias(str(size))
        for size in sizes
    ]
    summed = rows.group_by("name", maintain_order=True).agg(
        pl.col("accesses").sum().alias("all"),
        pl.col("accesses").filter(pl.col("distance").is_null()).sum().alias("first"),
        *missed,
    )
    summed = summed.sort("all", "name", descending=[True, False])
    shown = [
        (
            row["name"],
            grouped(row["all"]),
            percent(row["first"] / row["all"]),
            *(percent(row[str(size)] / row["all"]) for size in sizes),
        )
        for row in summed.head(MOST).iter_rows(named=True)
    ]
    if summed.height > MOST:
        title += f" (the {MOST} with the most accesses of {summed.height})"
    heads: Sequence[str] = (head, "accesses", "first", *map(memory, sizes))
    return Table(f"{title}, miss ratios by size", tuple(heads), tuple(shown), right=len(heads) - 1)


def percent(ratio: float | None) -> str:
    """Returns a ratio in percent.

    >>> percent(0.12345), percent(None)
    ('12.345%', '-')
    """
    return "-" if ratio is None else f"{100 * ratio:.3f}%"


__all__ = ["percent", "reuse_tables"]
