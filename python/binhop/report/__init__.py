"""Figures from the tables of a result's directory: Parquet in, pictures out, no simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.report.comparison import draw_comparison
from binhop.report.figures import draw
from binhop.report.paging import draw_paging

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["draw", "draw_comparison", "draw_paging", "redraw"]


def redraw(directory: Path, provenance: dict[str, Any]) -> list[Path]:
    """Draws whatever a command left in a directory: its provenance tells what that is."""
    if "alternatives" in provenance:
        return draw_comparison(directory)
    if "pid_hash" in provenance:
        return draw_paging(directory)
    return draw(directory)
