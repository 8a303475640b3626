"""Makes the tables of a run: for each workload its misses at every level and in memory, and its CPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.metrics import MEMORY, caches
from binhop.numbers import counted, figure, grouped
from binhop.summary import demand_misses, summarise
from binhop.tables.form import Table

if TYPE_CHECKING:
    from binhop.lazy_imports import pl


def run_tables(results: pl.DataFrame, confidence: float) -> list[Table]:
    """Returns for each workload a table of misses and, where the machine has costs, a table of time."""
    made = []
    measured = results.filter(phase="measured")
    for workload in measured["workload"].unique(maintain_order=True):
        made += _of(measured.filter(workload=workload), workload, confidence)
    return made


def _of(measured: pl.DataFrame, workload: str, confidence: float) -> list[Table]:
    values = {row["metric"]: row for row in summarise(measured, confidence).iter_rows(named=True)}
    heads = ("median", f"{100 * confidence:g}% interval", "best (seed)", "worst (seed)")
    levels = [*caches(values), *["memory"] * (MEMORY in values)]
    rows = []
    for level in levels:
        row = values[f"{level}.mpi"]
        misses = demand_misses(measured, level)["misses"].to_list()
        mean = grouped(sum(misses) / max(len(misses), 1))
        rows.append((level, mean, figure(row["mean"], row["unit"]), *_spread(row)))
    n = measured["seed"].n_unique()
    title = (
        f"{workload} on {measured['machine'][0]}: {counted(values['references']['mean'], 'reference')}, "
        f"{counted(values['instructions']['mean'], 'instruction')}, {counted(n, 'placement')}"
    )
    tables = [Table(title, ("level", "misses", "MPI×1000", *heads), tuple(rows), right=6)]
    if "cpi" in values:
        row = values["cpi"]
        cells = ("time", grouped(values["cycles"]["mean"]), figure(row["mean"], row["unit"]), *_spread(row))
        tables.append(Table("", ("", "cycles", "CPI", *heads), (cells,), right=6))
    return tables


def _spread(row: dict[str, Any]) -> tuple[str, ...]:
    """Returns median, interval, best and worst; dashes if there is one placement or all are equal."""
    unit = row["unit"]
    if row["n"] < 2:
        return ("-",) * 4
    if row["min"] == row["max"]:
        return (figure(row["median"], unit), "-", "the same", "for all")
    return (
        figure(row["median"], unit),
        f"{figure(row['low'], unit)}-{figure(row['high'], unit)}",
        f"{figure(row['min'], unit)} ({row['best_seed']})",
        f"{figure(row['max'], unit)} ({row['worst_seed']})",
    )


__all__ = ["run_tables"]
