"""Makes the tables of a surface: what a switch costs for each quantum on each machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.numbers import grouped, percent
from binhop.tables.form import Table
from binhop.tables.switches import short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binhop.lazy_imports import pl

SHOWN: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("returning", "cycles a switch", short),
    ("overhead_returning", "all switches, of all cycles", percent),
)
"""The figures that tables show, without first segments: the metric, its title, and how a value is written."""


def surface_tables(rows: pl.DataFrame, facts: Mapping[str, Any]) -> list[Table]:
    """Returns a table of each figure: a row for each machine, a column for each quantum.

    Each cell holds the mean over placements and half the width of its interval. `facts` is the provenance.
    """
    quanta = rows["quantum"].unique(maintain_order=True).to_list()
    level = f"{100 * facts['confidence']:g}%"
    made = []
    for metric, title, shown in SHOWN:
        of = rows.filter(metric=metric)
        lines = []
        for machine in rows["machine"].unique(maintain_order=True):
            cells = [of.filter(machine=machine, quantum=quantum).row(0, named=True) for quantum in quanta]
            lines.append((machine, *(_cell(cell, shown) for cell in cells)))
        heads = ("quantum, instructions", *map(grouped, quanta))
        what = f"{facts['workload']}: {title}, without first segments, ± half the {level} interval"
        made.append(Table(what, heads, tuple(lines), right=len(quanta)))
    return made


def _cell(row: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    if row["mean"] is None:
        return "-"
    if row["low"] is None or row["low"] == row["high"]:
        return shown(row["mean"])
    return f"{shown(row['mean'])} ± {shown((row['high'] - row['low']) / 2)}"


__all__ = ["surface_tables"]
