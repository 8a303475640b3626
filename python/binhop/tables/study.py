"""Makes the tables of a study: for each part its metrics, cell by cell, with the parameters that vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.metrics import MEMORY, caches
from binhop.numbers import figure
from binhop.tables.comparison import titled
from binhop.tables.form import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNDEFINED = "nothing to show: the metrics are undefined here"


def study_tables(summary: pl.DataFrame, provenance: Mapping[str, Any]) -> list[Table]:
    """Returns a table for each part: a row for each cell, a column for each varying parameter and metric.

    Args:
        summary: The table of `StudyResult.summary`: its metrics, measured.
        provenance: The study's provenance: its parameters, its confidence, and its parts' metrics, if set.
    """
    shown: Mapping[str, Sequence[str]] = provenance.get("show") or {}
    return [
        _table(part, of, provenance, shown.get(part) or usual(of))
        for (part,), of in summary.group_by("part", maintain_order=True)
    ]


def usual(part: pl.DataFrame) -> list[str]:
    """Returns the metrics that a part shows by default.

    These are the misses per instruction at the last level, and CPI if all cells have it. If the cells' levels
    differ, the misses that reach memory replace those at the last level.
    """
    cells = part.group_by("cell", maintain_order=True).agg("metric")["metric"].to_list()
    last = {caches(names)[-1] for names in cells}
    levels = {tuple(caches(names)) for names in cells}
    first = MEMORY if len(levels) > 1 else f"{last.pop()}.mpi"
    return [first] + ["cpi"] * all("cpi" in names for names in cells)


def _table(part: str, of: pl.DataFrame, provenance: Mapping[str, Any], metrics: Sequence[str]) -> Table:
    varying = [name for name in provenance["axes"] if of[name].null_count() < of.height]
    keys = ["workload", *_several(of, "machine"), *varying]
    level = f"{100 * provenance['confidence']:g}% interval"
    units = {name: unit for name, unit in of.select("metric", "unit").unique().iter_rows() if name in metrics}
    heads = [*map(head, keys)] if len({*map(head, keys)}) == len(keys) else keys
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in of.filter(pl.col("metric").is_in(list(metrics))).iter_rows(named=True):
        place = (row["cell"], *(row[key] or "" for key in keys))
        cells.setdefault(place, {})[row["metric"]] = row
    rows: list[tuple[str, ...]] = [place[1:] for place in cells]
    for metric in metrics:
        pairs = [_shown(values.get(metric)) for values in cells.values()]
        varies = any(interval != "-" for _, interval in pairs)
        heads += [titled(metric, units.get(metric, "")), *[level] * varies]
        rows = [(*row, *pair[: 1 + varies]) for row, pair in zip(rows, pairs, strict=True)]
    sizes = sorted(set(of["n"].to_list()))
    placements = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    title = f"{part}: {placements} placement{'s' * (sizes != [1])}"
    return Table(title, tuple(heads), tuple(rows), right=len(heads) - len(keys), instead=UNDEFINED)


def head(key: str) -> str:
    """Returns a parameter as the heading of a column, without a section that most parameters share.

    >>> head("placement.policy"), head("cache.l2.ways"), head("machine")
    ('policy', 'l2 ways', 'machine')
    """
    words = key.split(".")
    return " ".join(words[1:] if words[0] in ("cache", "placement") and len(words) > 1 else words)


def _several(of: pl.DataFrame, column: str) -> list[str]:
    """Returns the column, if it has more than one value."""
    return [column] if of[column].n_unique() > 1 else []


def _shown(row: dict[str, Any] | None) -> tuple[str, str]:
    """Returns the mean and its interval."""
    if row is None:
        return "-", "-"
    unit = row["unit"]
    if row["low"] is None or row["low"] == row["high"]:
        return figure(row["mean"], unit), "-"
    return figure(row["mean"], unit), f"{figure(row['low'], unit)}-{figure(row['high'], unit)}"


__all__ = ["study_tables", "usual"]
