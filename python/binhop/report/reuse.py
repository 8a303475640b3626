"""Draws reuse distances: the miss ratio over cache size, and the accesses by distance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.output import read_parquet
from binhop.report.style import BLUE, ORANGE, SKY, finish, save

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

KIB = 1 << 10
KINDS = {"fetch": SKY, "load": BLUE, "store": ORANGE}


def draw_reuse(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a directory that `binhop reuse` made, and returns the files."""
    place = Path(directory)
    distances, curve, simulated = (
        read_parquet(place / f"{name}.parquet") for name in ("distances", "curve", "simulated")
    )
    charts = reuse_charts(distances, curve, simulated)
    return [file for stem, _, chart in charts for file in save(chart, place, stem)]


def reuse_charts(
    distances: pl.DataFrame, curve: pl.DataFrame, simulated: pl.DataFrame
) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has accesses."""
    for workload in curve["workload"].unique(maintain_order=True):
        of = curve.filter(workload=workload)
        accesses = of["accesses"][0]
        if accesses == 0:
            continue
        panels = [_curve(of, simulated.filter(workload=workload))]
        again = distances.filter(pl.col("distance").is_not_null(), workload=workload, group="process")
        if again.height:  # without it each unit was accessed once
            panels.append(_distances(again, accesses))
        chart = finish(
            alt.hconcat(*panels, spacing=36).resolve_scale(color="independent"),
            f"{workload}: reuse distances of {accesses / 1e6:.4g} M accesses",
            "Distance: the other lines (or pages) accessed since the last access to the same line or page.",
        )
        yield f"{workload}-reuse", workload, chart


def _curve(curve: pl.DataFrame, simulated: pl.DataFrame) -> Any:
    """Draws the miss ratio over cache size, with the simulated points."""
    rows = curve.with_columns(kib=pl.col("size") / KIB)
    x = alt.X(
        "kib:Q",
        title="cache size, KiB",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(grid=False, format="~g", labelOverlap=True),
    )
    y = alt.Y("miss_ratio:Q", title="misses per access", scale=alt.Scale(type="log"))
    line = (
        alt.Chart(rows)
        .mark_line(color=BLUE, strokeWidth=2, point={"color": BLUE, "size": 18})
        .encode(x=x, y=y)
    )
    layers = [line]
    title = "Miss ratio, fully associative LRU"
    points = simulated.with_columns(kib=pl.col("size") / KIB, miss_ratio=pl.col("mean"))
    if points.height:
        title += f"; points: {points['ways'][0]} ways, simulated"
        base = alt.Chart(points)
        layers.append(base.mark_rule(color=ORANGE).encode(x=x, y=alt.Y("least:Q"), y2="largest:Q"))
        layers.append(base.mark_point(color=ORANGE, filled=True, size=50).encode(x=x, y=y))
    return alt.layer(*layers).properties(width=330, height=250, title=title)


def _distances(rows: pl.DataFrame, accesses: int) -> Any:
    """Draws the share of accesses at most this far from the last one, by kind."""
    summed = rows.group_by("kind", "distance").agg(pl.col("accesses").sum())
    again = summed.sort("kind", "distance")
    ends = pl.when(pl.col("distance") == 0).then(1).otherwise(2 * pl.col("distance"))
    again = again.with_columns(below=ends, share=pl.col("accesses").cum_sum().over("kind") / accesses)
    chart = alt.Chart(again).mark_line(strokeWidth=2, point={"size": 18})
    kinds = [kind for kind in KINDS if kind in again["kind"].unique().to_list()]
    chart = chart.encode(
        x=alt.X(
            "below:Q",
            title="distance below",
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(grid=False, format=",", labelOverlap=True),
        ),
        y=alt.Y("share:Q", title="share of all accesses", axis=alt.Axis(format="%")),
        color=alt.Color(
            "kind:N",
            title=None,
            sort=kinds,
            scale=alt.Scale(domain=kinds, range=[KINDS[kind] for kind in kinds]),
            legend=alt.Legend(orient="right"),
        ),
    )
    return chart.properties(width=330, height=250, title="Accesses by distance, cumulative")


__all__ = ["draw_reuse", "reuse_charts"]
