"""Makes the tables of a study: for each part its metrics, cell by cell, with the parameters that vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.metrics import MEMORY, caches
from binhop.numbers import counted, figure, grouped, is_share, percent
from binhop.tables.comparison import titled
from binhop.tables.form import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OF_DEVICES = ("evicted-unread", "first-read-misses", "io-hits")
"""The metrics that a part with schemes for device data shows by default."""
UNDEFINED = "nothing to show: the metrics are undefined here"


def study_tables(summary: pl.DataFrame, provenance: Mapping[str, Any]) -> list[Table]:
    """Returns a table for each part: a row for each cell, a column for each varying parameter and metric.

    Args:
        summary: The table of `StudyResult.summary`: its metrics, measured.
        provenance: The study's provenance: its parameters, its confidence, and its parts' metrics, if set.
    """
    return [
        _table(part, of, provenance, metrics_shown(part, of, provenance))
        for (part,), of in summary.group_by("part", maintain_order=True)
    ]


def metrics_shown(part: str, of: pl.DataFrame, provenance: Mapping[str, Any]) -> Sequence[str]:
    """Returns the metrics that the table and the map of a part show. `of` are the part's rows."""
    shown: Mapping[str, Sequence[str]] = provenance.get("show") or {}
    return shown.get(part) or usual(of)


def usual(part: pl.DataFrame) -> list[str]:
    """Returns the metrics that a part shows by default.

    These are the misses per instruction at the last level, and CPI if all cells have it. If the cells' levels
    differ, the misses that reach memory replace those at the last level. Schemes for device data have metrics
    of their own.
    """
    if not any(name.endswith(".mpi") for name in part["metric"].unique()):
        return [*OF_DEVICES]
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
        unit = units.get(metric, "")
        heads += [metric if is_share(unit) else titled(metric, unit), *[level] * varies]
        rows = [(*row, *pair[: 1 + varies]) for row, pair in zip(rows, pairs, strict=True)]
    # A metric without a value has no placements.
    sizes = sorted(of.group_by("cell").agg(pl.col("n").max())["n"].unique())
    least = "" if len(sizes) == 1 else f"{grouped(sizes[0])} to "
    title = f"{part}: {least}{counted(sizes[-1], 'placement')}"
    return Table(title, tuple(heads), tuple(rows), right=len(heads) - len(keys), instead=UNDEFINED)


def head(key: str) -> str:
    """Returns a parameter as the heading of a column, without a section that most parameters share.

    >>> head("placement.policy"), head("cache.l2.ways"), head("io.ddio-ways"), head("machine")
    ('policy', 'l2 ways', 'ddio-ways', 'machine')
    """
    words = key.split(".")
    return " ".join(words[1:] if words[0] in ("cache", "placement", "io") and len(words) > 1 else words)


def _several(of: pl.DataFrame, column: str) -> list[str]:
    """Returns the column, if it has more than one value."""
    return [column] if of[column].n_unique() > 1 else []


def _shown(row: dict[str, Any] | None) -> tuple[str, str]:
    """Returns the mean and its interval."""
    if row is None:
        return "-", "-"
    mean, low, high = (_in_words(row[name], row["unit"]) for name in ("mean", "low", "high"))
    return mean, "-" if row["low"] is None or row["low"] == row["high"] else f"{low}-{high}"


def _in_words(value: float | None, unit: str) -> str:
    return percent(value) if value is not None and is_share(unit) else figure(value, unit)


__all__ = ["head", "metrics_shown", "study_tables", "usual"]
