"""Figures from the tables of a result's directory: Parquet in, pictures out, no simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.errors import RequestError
from binhop.report.comparison import draw_comparison
from binhop.report.figures import draw
from binhop.report.paging import draw_paging

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["chart_of", "draw", "draw_comparison", "draw_paging", "redraw"]


def chart_of(charts: Iterable[tuple[str, str, Any]], workload: str | None) -> Any:
    """Returns the chart of a workload; of the first workload that has one if none is named.

    Raises:
        RequestError: There is nothing to draw, or no workload of this name has a chart.
    """
    made = {name: chart for _, name, chart in charts}
    if not made:
        rule = "there is nothing to draw: every placement gives the same"
        raise RequestError("no chart", "chart", rule, "look at the tables")
    if workload is None:
        return next(iter(made.values()))
    if workload not in made:
        raise _binhop.unknown(workload, "chart", "no workload of this name has something to draw", [*made])
    return made[workload]


def redraw(directory: Path, provenance: dict[str, Any]) -> list[Path]:
    """Draws whatever a command left in a directory: its provenance tells what that is."""
    if "alternatives" in provenance:
        return draw_comparison(directory)
    if "pid_hash" in provenance:
        return draw_paging(directory)
    return draw(directory)
