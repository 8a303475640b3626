"""Draws device data: where lines that devices wrote die, what schemes cost, how far apart uses are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.device_data_figures import CLASSES, FATES
from binhop.lazy_imports import alt, pl
from binhop.numbers import counted
from binhop.output import read_parquet
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, finish, save

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

FATE_COLORS = dict(zip(FATES, (GREEN, SKY, BLUE, ORANGE, YELLOW, PINK, GREY), strict=True))
CLASS_COLORS = dict(zip(CLASSES, (BLUE, SKY, ORANGE, YELLOW), strict=True))
MEMORY = "memory-cycles"
MEMORY_COLORS = {MEMORY: BLUE}
FLOW_COLORS = {"dpcc": ORANGE, "cpdc": GREEN, "cpu": BLUE}
WIDTH = 250
ROW = 26


def draw_device_data(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws the workload of a directory that `binhop io` made, and returns the files."""
    place = Path(directory)
    summary, distances = (read_parquet(place / f"{name}.parquet") for name in ("summary", "distances"))
    return [
        file for stem, _, chart in device_data_charts(summary, distances) for file in save(chart, place, stem)
    ]


def device_data_charts(summary: pl.DataFrame, distances: pl.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has references below the front."""
    for workload in summary["workload"].unique(maintain_order=True):
        of = summary.filter(workload=workload)
        if of.filter(figure="share")["mean"].is_not_null().any():
            yield f"{workload}-io", workload, _figure(workload, of, distances.filter(workload=workload))


def device_data_words(summary: pl.DataFrame) -> dict[str, str]:
    """Returns for each workload the sentence in place of a picture."""
    words = "Nothing passes below the front, so there is nothing to draw."
    return dict.fromkeys(summary["workload"].unique(maintain_order=True).to_list(), words)


def _figure(workload: str, summary: pl.DataFrame, distances: pl.DataFrame) -> Any:
    schemes = summary["scheme"].drop_nulls().unique(maintain_order=True).to_list()
    n = int(summary.filter(figure="share")["n"].to_list()[0])
    fates, cycles = summary.filter(figure="fate"), _relative(summary, schemes[0])
    colors, clock = (MEMORY_COLORS, "Memory cycles") if _has_dram(summary) else (CLASS_COLORS, "Cycles")
    panels = [_stacked(cycles, schemes, colors, f"{clock}, {schemes[0]} = 100%", share=False)]
    if fates["mean"].is_not_null().any():  # a device wrote something
        title = "Lines that devices wrote, by fate"
        panels.insert(0, _stacked(fates, schemes, FATE_COLORS, title, share=True))
    rows: list[Any] = [alt.hconcat(*panels, spacing=28).resolve_scale(color="independent")]
    far = _cumulative(distances)
    if far.height:
        rows.append(_distances(far))
    chart = alt.vconcat(*rows, spacing=28).resolve_scale(
        color="independent", strokeDash="independent", x="independent"
    )
    machine = str(summary["machine"][0])
    placements = counted(n, "placement")
    said = [f"{placements}; bars are means. Lines read after eviction had left the caches unread."]
    return finish(chart, f"{workload} on {machine}: what becomes of device data", said)


def _relative(summary: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Returns cycles as shares of the baseline's: of each class, or of memory with a controller."""
    base = summary.filter(figure="cycles", scheme=baseline)["mean"]
    whole = base[0] if len(base) and base[0] else None
    rows = summary.filter(figure="class-cycles")
    if _has_dram(summary):  # the agents overlap, so their cycles do not add up
        rows = summary.filter(figure="cycles").with_columns(of=pl.lit(MEMORY))
    return rows.with_columns(mean=pl.col("mean") / pl.lit(whole, pl.Float64))


def _has_dram(summary: pl.DataFrame) -> bool:
    """Returns whether memory has a controller."""
    return "row-hits" in summary["figure"].to_list()


def _stacked(
    rows: pl.DataFrame, schemes: list[str], colors: dict[str, str], title: str, *, share: bool
) -> Any:
    """Draws a bar for each scheme, stacked by what its parts are of."""
    there = [name for name in colors if rows.filter(of=name)["mean"].fill_null(0).sum() > 0]
    names = {name: name.replace("-", " ") for name in there}
    order = {name: number for number, name in enumerate(there)}
    shown = rows.filter(pl.col("of").is_in(there)).with_columns(
        part=pl.col("of").replace(names), place=pl.col("of").replace_strict(order, return_dtype=pl.Int64)
    )
    x = alt.X(
        "mean:Q",
        stack="zero",
        title="share of the lines" if share else "share of the baseline's cycles",
        axis=alt.Axis(format="%", tickCount=5),
    )
    y = alt.Y("scheme:N", sort=schemes, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=140))
    color = alt.Color(
        "part:N",
        sort=[*names.values()],
        scale=alt.Scale(domain=[*names.values()], range=[colors[name] for name in there]),
        legend=alt.Legend(title=None, orient="bottom", columns=3, symbolType="square"),
    )
    bars = alt.Chart(shown).mark_bar(size=16).encode(x=x, y=y, color=color, order="place:Q")
    layers: list[Any] = [bars]
    if not share:
        layers.append(
            alt.Chart(pl.DataFrame({"x": [1.0]})).mark_rule(color=BLACK, strokeDash=[3, 3]).encode(x="x:Q")
        )
    return alt.layer(*layers).properties(width=WIDTH, height=alt.Step(ROW), title=title)


def _cumulative(distances: pl.DataFrame) -> pl.DataFrame:
    """Returns the shares of references below each distance, for each flow and stream, of all devices.

    A curve reaches as far as the longest distance of any flow. Otherwise a flow at one distance would be one
    point, which nobody sees.
    """
    keys = ["flow", "stream"]
    of = distances.filter(pl.col("flow").is_in([*FLOW_COLORS]))
    summed = of.group_by([*keys, "distance"]).agg(pl.col("references").sum()).sort([*keys, "distance"])
    whole = pl.col("references").sum().over(keys)
    ends = pl.when(pl.col("distance") == 0).then(1).otherwise(2 * pl.col("distance"))
    wholes = summed.select(*keys, whole=whole).unique()
    known = summed.filter(pl.col("distance").is_not_null())
    shares = wholes.join(known.select("distance").unique(), how="cross").join(
        known, on=[*keys, "distance"], how="left"
    )
    shares = shares.with_columns(pl.col("references").fill_null(0)).sort([*keys, "distance"])
    return shares.with_columns(below=ends, share=pl.col("references").cum_sum().over(keys) / pl.col("whole"))


def _distances(shares: pl.DataFrame) -> Any:
    """Draws the shares of references over distance: together drawn through, separated dashed."""
    flows = [flow for flow in FLOW_COLORS if flow in shares["flow"].unique().to_list()]
    names = {flow: flow.upper() for flow in flows}
    chart = alt.Chart(shares.with_columns(flow=pl.col("flow").replace(names))).mark_line(strokeWidth=2)
    encoded = chart.encode(
        x=alt.X(
            "below:Q",
            title="reuse distance below (lines)",
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(grid=False, format=",", labelOverlap=True),
        ),
        y=alt.Y(
            "share:Q", title="share of references", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
        ),
        color=alt.Color(
            "flow:N",
            sort=[*names.values()],
            scale=alt.Scale(domain=[*names.values()], range=[FLOW_COLORS[flow] for flow in flows]),
            legend=alt.Legend(title=None, orient="right"),
        ),
        strokeDash=alt.StrokeDash(
            "stream:N",
            scale=alt.Scale(domain=["together", "separated"], range=[[1, 0], [5, 4]]),
            legend=alt.Legend(title=None, orient="right"),
        ),
    )
    title = "Reuse distances: device produces, CPU consumes (DPCC), the other way (CPDC), CPU alone"
    return encoded.properties(width=2 * WIDTH + 90, height=170, title=title)


__all__ = ["device_data_charts", "device_data_words", "draw_device_data"]
