"""Draws page faults: their rate over memory sizes, and how colors change the rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.numbers import counted
from binhop.output import read_parquet
from binhop.report.style import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, YELLOW, finish, save

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

PALETTE = (BLUE, ORANGE, GREEN, PINK, BLACK, YELLOW, SKY)
MIB = 1 << 20


def draw_paging(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a directory that `binhop paging` made, and returns the files."""
    place = Path(directory)
    faults = read_parquet(place / "faults.parquet")
    return [file for stem, _, chart in paging_charts(faults) for file in save(chart, place, stem)]


def paging_charts(faults: pl.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has a chart."""
    for workload in faults["workload"].unique(maintain_order=True):
        of = faults.filter(workload=workload)
        references = of["references"][0]
        if references == 0:
            continue  # there is no rate to draw
        panels = []
        if of["size"].n_unique() > 1:
            panels.append(_over_memory(of))
        if of["colors"].n_unique() > 1:
            panels.append(_over_colors(of))
        if not panels:
            continue  # one number needs no picture
        chart = finish(
            alt.hconcat(*panels, spacing=36).resolve_scale(color="independent"),
            f"{workload}: page faults of {references / 1e6:.4g} M references",
            "First touches included. Least recently used within each color; one color is global LRU.",
        )
        yield f"{workload}-paging", workload, chart


def _over_memory(faults: pl.DataFrame) -> Any:
    """Draws the rate over memory size, for the fewest and for the most colors."""
    counts = faults["colors"].unique().sort().to_list()
    ends = [*dict.fromkeys([counts[0], counts[-1]])]
    names = [_colors(colors) for colors in ends]
    rows = faults.filter(pl.col("colors").is_in(ends)).with_columns(
        memory=pl.col("size") / MIB,
        rate=1e6 * pl.col("fault_rate"),
        colors_=pl.col("colors").map_elements(_colors, return_dtype=pl.String),
    )
    sizes, rates = rows["memory"].unique().sort().to_list(), rows["rate"].to_list()
    x = alt.X(
        "memory:Q",
        title="memory, MiB",
        scale=alt.Scale(type="log", base=2, domain=[sizes[0], sizes[-1]], nice=False),
        axis=alt.Axis(values=sizes, grid=False, format="~r", labelOverlap=True),
    )
    y = alt.Y(
        "rate:Q",
        title="page faults per million references",
        scale=alt.Scale(type="log", domain=[0.8 * min(rates), 1.25 * max(rates)], nice=False),
    )
    color = _color("colors_", names, None)
    dash = alt.StrokeDash(
        "colors_:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[[1, 0], [5, 4]][: len(names)]),
        legend=None,
    )
    chart = alt.Chart(rows).mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash)
    return chart.properties(width=330, height=250, title="Over memory")


def _over_colors(faults: pl.DataFrame) -> Any:
    """Draws the rate relative to the fewest colors, for each memory size."""
    few = faults["colors"].min()
    base = faults.filter(colors=few).select("size", pl.col("fault_rate").alias("base"))
    rows = faults.join(base, on="size", maintain_order="left").with_columns(
        ratio=pl.col("fault_rate") / pl.col("base"),
        memory=pl.col("size").map_elements(_mib, return_dtype=pl.String),
    )
    names = [_mib(size) for size in rows["size"].unique().sort().to_list()]
    counts = rows["colors"].unique().sort().to_list()
    x = alt.X(
        "colors:Q",
        title="colors",
        scale=alt.Scale(type="log", base=2, domain=[counts[0], counts[-1]], nice=False),
        axis=alt.Axis(values=counts, grid=False, format="d", labelOverlap=True),
    )
    y = alt.Y(
        "ratio:Q",
        title=f"page faults relative to {_colors(counts[0])}",
        scale=alt.Scale(zero=False, nice=6),
        axis=alt.Axis(format=".4~f"),
    )
    color = _color("memory", names, "memory")
    chart = alt.Chart(rows).mark_line(strokeWidth=1.6, point=alt.OverlayMarkDef(size=30))
    return chart.encode(x=x, y=y, color=color).properties(width=330, height=250, title="Over colors")


def _color(column: str, names: list[str], title: str | None) -> Any:
    legend = alt.Legend(
        title=title,
        orient="right",
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
    )
    colors = [PALETTE[number % len(PALETTE)] for number in range(len(names))]
    return alt.Color(f"{column}:N", sort=names, scale=alt.Scale(domain=names, range=colors), legend=legend)


def _colors(colors: int) -> str:
    return counted(colors, "color")


def _mib(size: int) -> str:
    return f"{size / MIB:g} MiB"
