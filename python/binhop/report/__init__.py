"""Draws figures from the Parquet tables of a result's directory, without a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.report.comparison import draw_comparison
from binhop.report.device_data import draw_device_data
from binhop.report.figures import draw
from binhop.report.paging import draw_paging
from binhop.report.reuse import draw_reuse
from binhop.report.style import held, in_words
from binhop.report.surface import draw_surface
from binhop.report.switches import draw_switches
from binhop.report.translation import draw_translation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["chart_of", "draw", "draw_comparison", "draw_paging", "draw_switches", "draw_translation"]
__all__ += ["draw_device_data", "draw_reuse", "draw_surface", "redraw"]


def chart_of(charts: Iterable[tuple[str, str, Any]], workload: str | None, words: dict[str, str]) -> Any:
    """Returns the chart of a workload; of the first workload that has one if none is named.

    Args:
        charts: The name, workload and chart of each workload that has a picture.
        workload: The workload; None is the first one that has a picture.
        words: For each workload the sentence that stands in place of a picture.

    Raises:
        RequestError: There is no workload of this name.
    """
    made = {name: chart for _, name, chart in charts}
    if workload is None:
        workload = next(iter(made or words))
    if workload not in words:
        raise _binhop.unknown(workload, "chart", "no workload of this result has this name", [*words])
    return held(made[workload]) if workload in made else in_words(workload, words[workload])


def redraw(directory: Path, provenance: dict[str, Any]) -> list[Path]:
    """Draws the figures of a result's directory. The provenance names the kind of the result."""
    if "alternatives" in provenance:
        return draw_comparison(directory)
    if "pid_hash" in provenance:
        return draw_paging(directory)
    if "kinds" in provenance:
        return draw_reuse(directory)
    if provenance.get("switches"):
        return draw_switches(directory)
    if provenance.get("surface"):
        return draw_surface(directory)
    if provenance.get("translation"):
        return draw_translation(directory)
    if provenance.get("device_data"):
        return draw_device_data(directory)
    return draw(directory)
