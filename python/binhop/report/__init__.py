"""Figures from the tables of a result's directory: Parquet in, pictures out, no simulation."""

from binhop.report.comparison import draw_comparison
from binhop.report.figures import draw

__all__ = ["draw", "draw_comparison"]
