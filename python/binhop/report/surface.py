"""Draws a surface: what a switch costs for each quantum on each machine, as two maps of colours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import json_file
from binhop.lazy_imports import alt, pl
from binhop.numbers import counted, grouped, percent
from binhop.output import MARK, read_parquet
from binhop.report.style import finish, save
from binhop.tables.switches import short

if TYPE_CHECKING:
    import os

CELL = (76, 30)
"""The width and the height of a cell."""
LONGEST = 46
"""The most characters of a machine's name."""


def draw_surface(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws the surface of a directory that `binhop surface` made, and returns the files."""
    place = Path(directory)
    facts = json_file.read(place / MARK)
    chart = surface_chart(read_parquet(place / "surface.parquet"), facts["workload"], len(facts["seeds"]))
    return save(chart, place, f"{facts['workload']}-surface")


def surface_chart(rows: pl.DataFrame, workload: str, placements: int) -> Any:
    """Returns the chart: cycles a switch, and the share of all cycles."""
    maps = [
        _map(rows.filter(metric="returning"), "cycles a switch", short, names=True),
        _map(rows.filter(metric="overhead_returning"), "all switches, of all cycles", percent, names=False),
    ]
    said = [
        "Excess cycles: what processes wait longer in the shared caches than in caches of their own, "
        "without first segments.",
        "Red: switches cost cycles. Blue: processes find lines that others have brought in. Means over "
        f"{counted(placements, 'placement')}.",
    ]
    both = alt.hconcat(*maps, spacing=24).resolve_scale(color="independent")
    return finish(both, f"{workload}: what a switch costs by quantum and machine", said)


def _map(rows: pl.DataFrame, title: str, shown: Any, *, names: bool) -> Any:
    """Returns one map. Its colours go from zero to the largest value on either side."""
    quanta = rows["quantum"].unique().sort().to_list()
    machines = rows["machine"].unique(maintain_order=True).to_list()
    largest = max((abs(value) for value in rows["mean"].drop_nulls()), default=0) or 1
    words = ["-" if mean is None else shown(mean) for mean in rows["mean"]]
    cells = rows.with_columns(
        quantum=pl.Series([grouped(quantum) for quantum in rows["quantum"]], dtype=pl.String),
        word=pl.Series(words, dtype=pl.String),
        dark=(pl.col("mean").abs() > 0.6 * largest).fill_null(value=False),
    )
    x = alt.X(
        "quantum:N",
        sort=[grouped(quantum) for quantum in quanta],
        title="quantum, instructions",
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    axis = alt.Axis(labelLimit=6 * LONGEST, domain=False, ticks=False) if names else None
    y = alt.Y("machine:N", sort=machines, title=None, axis=axis)
    scale = alt.Scale(domain=[-largest, largest], range=["#2166AC", "#F7F7F7", "#B2182B"], interpolate="lab")
    color = alt.Color("mean:Q", scale=scale, legend=None)
    base = alt.Chart(cells).encode(x=x, y=y)
    text = base.mark_text(fontSize=11).encode(
        text="word:N", color=alt.condition(alt.datum.dark, alt.value("#FFFFFF"), alt.value("#222222"))
    )
    width, height = CELL[0] * len(quanta), CELL[1] * len(machines)
    squares = base.mark_rect(stroke="white", strokeWidth=1).encode(color=color)
    return (squares + text).properties(width=width, height=height, title=title)


__all__ = ["draw_surface", "surface_chart"]
