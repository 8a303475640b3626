"""Makes the tables of a run: for each workload its misses at every level and in memory, and its CPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.metrics import MEMORY, caches
from binhop.numbers import counted, figure, grouped
from binhop.summary import check_confidence, demand_misses, summary_of
from binhop.tables.form import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binhop.summary import Points


def run_tables(results: Sequence[Points], confidence: float) -> list[Table]:
    """Returns for each workload a table of misses and, where the machine has costs, a table of time."""
    check_confidence(confidence)
    by_workload: dict[str, dict[str, Points]] = {}
    for of in results:
        if of.phase == "measured":
            by_workload.setdefault(of.workload, {})[of.metric] = of
    made = []
    for workload, measured in by_workload.items():
        made += _of(measured, workload, confidence)
    return made


def _of(measured: Mapping[str, Points], workload: str, confidence: float) -> list[Table]:
    heads = ("median", f"{100 * confidence:g}% interval", "best (seed)", "worst (seed)")
    references, instructions = measured["references"], _summary(measured["instructions"], confidence)
    n = len(references.seeds)
    levels = [*caches(measured), *["memory"] * (MEMORY in measured)]
    rows = []
    for level in levels:
        row = _summary(measured[f"{level}.mpi"], confidence)
        mean = grouped(_demand_misses(measured, level) / n)
        rows.append((level, mean, figure(row["mean"], row["unit"]), *_spread(row)))
    title = (
        f"{workload} on {references.machine}: "
        f"{counted(_summary(references, confidence)['mean'], 'reference')}, "
        f"{counted(instructions['mean'], 'instruction')}, {counted(n, 'placement')}"
    )
    tables = [Table(title, ("level", "misses", "MPI×1000", *heads), tuple(rows), right=6)]
    if "cpi" in measured:
        row = _summary(measured["cpi"], confidence)
        cycles = _summary(measured["cycles"], confidence)
        cells = ("time", grouped(cycles["mean"]), figure(row["mean"], row["unit"]), *_spread(row))
        tables.append(Table("", ("", "cycles", "CPI", *heads), (cells,), right=6))
    return tables


def _summary(of: Points, confidence: float) -> dict[str, Any]:
    """Returns the summary of a metric, with its unit."""
    return {"unit": of.unit, **summary_of(of.seeds, of.values, confidence)}


def _demand_misses(measured: Mapping[str, Points], level: str) -> int:
    """Returns a level's demand misses, summed over the placements."""
    kinds = (measured.get(metric) for metric in demand_misses(level))
    return sum(int(value) for of in kinds if of is not None for value in of.values if value is not None)


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
