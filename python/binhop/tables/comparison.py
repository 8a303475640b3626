"""Makes the tables of a comparison: for each workload and metric, one row for each alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.numbers import counted, figure, signed
from binhop.summary import as_one_workload
from binhop.tables.form import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

UNDEFINED = "nothing to compare: every metric is undefined here"


def comparison_tables(
    values: pl.DataFrame, summary: pl.DataFrame, provenance: Mapping[str, Any]
) -> list[Table]:
    """Returns a table for each workload from a comparison's values, its summary, and its provenance."""
    traces = provenance.get("compared") == "traces"
    measured = as_one_workload(values.filter(phase="measured"), by_trace=traces)
    return [
        _table(measured.filter(workload=workload), summary.filter(workload=workload), provenance, workload)
        for workload in measured["workload"].unique(maintain_order=True)
    ]


def explained(summary: pl.DataFrame, provenance: Mapping[str, Any]) -> str | None:
    """Returns an explanation of the columns; None if there is only one placement."""
    if (summary["n"].max() or 1) == 1:
        return None
    base, level = provenance["baseline"], f"{100 * provenance['confidence']:g}%"
    return (
        f"difference: from {base} under the same seed, and the {level} interval of its mean (Student's t). "
        f"chance: in how many of the seeds it has less than {base}, a tie as half, and the {level} interval "
        "of that share (Wilson)."
    )


def _table(
    measured: pl.DataFrame, summary: pl.DataFrame, provenance: Mapping[str, Any], workload: str
) -> Table:
    base = provenance["baseline"]
    level = f"{100 * provenance['confidence']:g}% interval"
    columns = ("metric", "alternative", "mean", "difference", level, "reduction", "chance")
    rows = []
    for metric in provenance["metrics"]:
        of = summary.filter(metric=metric)
        if of.is_empty():
            continue
        unit = of["unit"][0]
        title = titled(metric, unit)
        rows.append((title, base, figure(of["baseline_mean"][0], unit), "baseline", "", "", ""))
        for row in of.iter_rows(named=True):
            rows.append((title, row["alternative"], figure(row["mean"], unit), *_against(row, unit)))
    head = _head(measured, provenance, workload)
    return Table(head, columns, tuple(rows), right=5, grouped=True, instead=UNDEFINED)


def _head(measured: pl.DataFrame, provenance: Mapping[str, Any], workload: str) -> str:
    """Returns the title: what was compared, and how much of it was simulated."""
    n = len(provenance["seeds"])
    placements = counted(n, "placement")
    if provenance.get("compared") == "traces":
        names = ", ".join(each["name"] for each in provenance["alternatives"])
        return f"{names} on {provenance['alternatives'][0]['machine']}: {placements}"
    of = measured.filter(alternative=provenance["baseline"]).group_by("metric").agg(pl.col("value").mean())
    totals = dict(of.iter_rows())
    return (
        f"{workload}: {counted(totals['references'], 'reference')}, "
        f"{counted(totals['instructions'], 'instruction')}, {placements}"
    )


def titled(metric: str, unit: str) -> str:
    """Returns the heading for the values of a metric."""
    if metric.endswith(".mpi"):
        return f"{metric.removesuffix('.mpi')} MPI×1000"
    if metric == "cpi":
        return "CPI"
    if unit == "misses":
        return f"{metric.removesuffix('.misses')} misses"
    return metric if metric == unit else f"{metric}, {unit}"


def _against(row: dict[str, Any], unit: str) -> tuple[str, ...]:
    """Returns difference, interval, reduction and chance of an alternative; words if nothing varies."""
    if row["ties"] == row["n"]:
        return ("the same", "-", "-", "-")
    span = "-"
    if row["low"] is not None:
        span = f"{signed(row['low'], unit)} to {signed(row['high'], unit)}"
        if row["low"] == row["high"]:
            span = "every seed"
    reduction = "-" if row["reduction"] is None else f"{100 * row['reduction']:.1f}%"
    chance = "-"
    if row["n"] > 1:
        chance = f"{100 * row['chance']:.0f}%"
    if row["chance_low"] is not None:
        chance += f" ({100 * row['chance_low']:.0f}-{100 * row['chance_high']:.0f})"
    return (signed(row["difference"], unit), span, reduction, chance)


__all__ = ["comparison_tables", "explained", "titled"]
