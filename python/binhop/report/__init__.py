"""Figures from the tables of a result's directory: Parquet in, pictures out, no simulation."""

from binhop.report.figures import draw

__all__ = ["draw"]
