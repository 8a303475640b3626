"""Draws the maps of a study: a field for each cell of a part, with its value in words and as a colour."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.device_data_figures import FIGURES
from binhop.lazy_imports import alt, pl
from binhop.numbers import counted, figure, is_share, percent
from binhop.report.style import finish, save
from binhop.tables.device_data import compact
from binhop.tables.study import head, metrics_shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FIELD = (62, 36)
"""The width and the height of a field."""
COLORS = ["#F4F7FB", "#9ECAE1", "#08519C"]
"""The colours from the least value to the greatest."""
DARK = 0.6
"""The share of the way from least to greatest from which a field is dark, and its words are white."""
LINE = 110
"""The characters of a line below the title."""


def draw_study(summary: pl.DataFrame, provenance: Mapping[str, Any], directory: Path) -> list[Path]:
    """Draws the map of each part that has one, and returns the files.

    Args:
        summary: The table of `StudyResult.summary`, with the metrics that tables show.
        provenance: The study's provenance.
        directory: The directory of the files, which are named after study and part.
    """
    files = []
    for part, chart in study_charts(summary, provenance):
        name = provenance["study"] if part == provenance["study"] else f"{provenance['study']}-{part}"
        files += save(chart, directory, name)
    return files


def study_charts(summary: pl.DataFrame, provenance: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the part and the chart of each map."""
    for part, axes in provenance["maps"].items():
        of = summary.filter(part=part)
        metrics = metrics_shown(part, of, provenance)
        drawn = [metric for metric in metrics if of.filter(metric=metric)["mean"].is_not_null().any()]
        drawn = [metric for metric in drawn if metric in axes.get("show", drawn)]
        if drawn:  # a metric without any value needs no map
            yield part, _chart(of.filter(pl.col("metric").is_in(drawn)), axes, drawn, provenance)


def _chart(
    of: pl.DataFrame, axes: Mapping[str, Any], metrics: Sequence[str], provenance: Mapping[str, Any]
) -> Any:
    """Draws a map for each metric and each value of `rows` and `panels`.

    Maps of one metric and one value of `rows` stand side by side; without both parameters all metrics do.
    """
    lines: list[Any] = []
    is_plain = "rows" not in axes and "panels" not in axes
    for metric in metrics:
        values = _fields(of.filter(metric=metric))
        for row, of_row in _split(values, axes.get("rows")):
            line: list[Any] = []
            for panel, cells in _split(of_row, axes.get("panels")):
                title = ", ".join([metric, *row, *panel])
                line.append(_map(cells, axes, title, names=not line and not (is_plain and lines)))
            lines.append(alt.hconcat(*line, spacing=18))
    whole = alt.hconcat(*lines, spacing=24) if is_plain else alt.vconcat(*lines, spacing=22)
    return finish(whole, provenance["title"], _words(of, metrics, provenance))


def _split(cells: pl.DataFrame, axis: str | None) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Yields the cells of each value of a parameter, with the words that name the value."""
    if axis is None:
        yield [], cells
        return
    # The name of a workload or machine says what it is. A number does not.
    before = "" if axis in ("workload", "machine") else f"{head(axis)} "
    for value in cells[axis].unique(maintain_order=True):
        yield [f"{before}{value}"], cells.filter(pl.col(axis) == value)


def _words(of: pl.DataFrame, metrics: Sequence[str], provenance: Mapping[str, Any]) -> list[str]:
    """Returns the lines below the title: what was simulated, and what the metrics mean."""
    n = max(of["n"].to_list())
    machines = ", ".join(of["machine"].unique(maintain_order=True))
    workloads = ", ".join(of["workload"].unique(maintain_order=True))
    said = f"{workloads} on {machines}; {counted(n, 'placement')}."
    if n > 1:
        said += f" Mean, and below it half the {100 * provenance['confidence']:g}% interval."
    known = {name: meaning for name, _, meaning in _binhop.device_data_metrics()}
    known |= {name: meaning for name, (_, meaning) in FIGURES.items()}
    means = [f"{metric}: {known[metric]}" for metric in metrics if metric in known]
    return [said, *(line for text in means for line in wrap(text, LINE))]


def _fields(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the cells of one metric with their words and their place between least and greatest."""
    unit = rows["unit"][0]
    means: list[float] = rows["mean"].drop_nulls().to_list()
    least = 0 if is_share(unit) else min(means)
    span = (max(means) - least) or 1
    words, halves = [], []
    for row in rows.iter_rows(named=True):
        words.append(_word(row["mean"], unit))
        varies = row["low"] is not None and row["low"] != row["high"]
        halves.append(f"±{_word(row['high'] - row['mean'], unit)}" if varies else "")
    place = (pl.col("mean") - least) / span
    return rows.with_columns(
        word=pl.Series(words, dtype=pl.String),
        half=pl.Series(halves, dtype=pl.String),
        place=place,
        dark=(place > DARK).fill_null(value=False),
    )


def _map(cells: pl.DataFrame, axes: Mapping[str, Any], title: str, *, names: bool) -> Any:
    """Returns one map. `names` says whether the values of y stand beside it."""
    order = {axis: cells[axes[axis]].unique(maintain_order=True).to_list() for axis in ("x", "y")}
    fields = cells.select(
        pl.col(axes["x"]).alias("across"), pl.col(axes["y"]).alias("down"), "word", "half", "place", "dark"
    )
    x = alt.X(
        "across:N",
        sort=order["x"],
        title=head(axes["x"]),
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    axis = alt.Axis(labelLimit=200, domain=False, ticks=False) if names else None
    y = alt.Y("down:N", sort=order["y"], title=head(axes["y"]) if names else None, axis=axis)
    scale = alt.Scale(domain=[0, 0.5, 1], range=COLORS, interpolate="lab")
    base = alt.Chart(fields).encode(x=x, y=y)
    ink = alt.condition(alt.datum.dark, alt.value("#FFFFFF"), alt.value("#222222"))
    varies = any(cells["half"])
    squares = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("place:Q", scale=scale, legend=None)
    )
    word = base.mark_text(fontSize=11, dy=-6 if varies else 0).encode(text="word:N", color=ink)
    half = base.mark_text(fontSize=9, dy=8).encode(text="half:N", color=ink)
    width, height = FIELD[0] * len(order["x"]), FIELD[1] * len(order["y"])
    return alt.layer(squares, word, *([half] if varies else [])).properties(
        width=width, height=height, title=title
    )


def _word(value: float | None, unit: str) -> str:
    """Returns a value as a field shows it.

    >>> _word(0.123, "lines/line"), _word(2_345_678, "cycles"), _word(1.5, "cycles/line")
    ('12.3%', '2.35M', '1.500')
    """
    if value is None:
        return "-"
    if is_share(unit):
        return percent(value)
    return figure(value, unit) if "/" in unit else compact(value)


__all__ = ["draw_study", "study_charts"]
