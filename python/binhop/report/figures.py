"""The picture of a run: how misses are distributed over placements, and over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl
import vl_convert

from binhop.summary import summarise

if TYPE_CHECKING:
    import os

# Okabe and Ito's colours: distinct for every kind of colour vision, and in print.
WORST, BEST, OTHERS, MEAN = "#D55E00", "#0072B2", "#8A8A8A", "#000000"
PER_1000 = "misses per 1000 instructions"
SCALE = 2.0
"""Pixels per unit of length in the PNG: sharp on dense screens, a README's width across."""


def draw(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a result's directory at its last cache; the files made."""
    place = Path(directory)
    results = pl.read_parquet(place / "results.parquet").filter(phase="measured")
    series = pl.read_parquet(place / "series.parquet")
    made: list[Path] = []
    for workload in results["workload"].unique(maintain_order=True):
        of = results.filter(workload=workload)
        metrics = [name for name in of["metric"].unique(maintain_order=True) if name.endswith(".mpi")]
        metric = metrics[-1]
        values = of.filter(metric=metric).drop_nulls("value")
        over_time = series.filter(workload=workload, metric=metric).drop_nulls("value")
        if values.height < 2 and over_time.is_empty():
            continue  # one number needs no picture
        chart = _figure(workload, metric.removesuffix(".mpi"), values, over_time)
        specification = chart.to_json()
        stem = f"{workload}-{metric.removesuffix('.mpi')}"
        version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
        png, svg = place / f"{stem}.png", place / f"{stem}.svg"
        png.write_bytes(vl_convert.vegalite_to_png(specification, vl_version=version, scale=SCALE))
        svg.write_text(vl_convert.vegalite_to_svg(specification, vl_version=version), encoding="utf-8")
        made += [png, svg]
    return made


def _figure(workload: str, cache: str, values: pl.DataFrame, over_time: pl.DataFrame) -> Any:
    """The parts there are, side by side."""
    parts: list[Any] = []
    if values.height >= 2:
        parts.append(_distribution(cache, values))
    if not over_time.is_empty():
        parts.append(_over_time(cache, values, over_time))
    machine = values["machine"][0]
    placements = f"{values.height} random page placements" if values.height > 1 else "one page placement"
    title = alt.TitleParams(
        f"{workload} on {machine}: {placements}",
        subtitle="One point, and one line, for each placement. Nothing else differs.",
        anchor="start",
        fontSize=15,
        subtitleFontSize=12,
        subtitleColor="#555555",
        offset=14,
    )
    return (
        alt.hconcat(*parts, spacing=36)
        .properties(title=title, background="white")
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor="#ECECEC",
            domainColor="#888888",
            tickColor="#888888",
            labelColor="#333333",
            titleColor="#333333",
        )
    )


def _distribution(cache: str, values: pl.DataFrame) -> Any:
    """Every placement a point over its value, equals piled up; mean, interval, best and worst named."""
    summary = summarise(values).row(0, named=True)
    points = _piled(values, summary)
    low, high = 1000 * summary["min"], 1000 * summary["max"]
    margin = 0.08 * (high - low or high or 1)
    x = alt.X(
        "value:Q",
        title=f"{cache} {PER_1000}",
        scale=alt.Scale(domain=[low - margin, high + margin], zero=False, nice=False),
        axis=alt.Axis(tickCount=6),
    )
    tallest = max(points["pile"].to_list())
    y = alt.Y(
        "pile:Q",
        title="placements",
        scale=alt.Scale(domain=[0, max(tallest + 2.5, 6)]),
        axis=alt.Axis(tickMinStep=1, tickCount=5),
    )
    dots = (
        alt.Chart(points)
        .mark_circle(size=70, opacity=1)
        .encode(x=x, y=y, color=alt.Color("role:N", scale=_roles(), legend=None))
    )
    interval = pl.DataFrame({"value": [1000 * summary["low"]], "to": [1000 * summary["high"]]})
    band = alt.Chart(interval).mark_rect(color="#E9E3C9", opacity=0.9).encode(x=x, x2="to:Q")
    mean = pl.DataFrame(
        {
            "value": [1000 * summary["mean"]],
            "text": [f"mean {1000 * summary['mean']:.4g}"],
        }
    )
    rule = alt.Chart(mean).mark_rule(color=MEAN, strokeWidth=1.5).encode(x=x)
    label = (
        alt.Chart(mean)
        .mark_text(align="left", dx=5, dy=7, baseline="top", color=MEAN, fontSize=11)
        .encode(x=x, y=alt.value(0), text="text:N")
    )
    return alt.layer(band, rule, dots, label).properties(width=300, height=260)


def _piled(values: pl.DataFrame, summary: dict[str, Any]) -> pl.DataFrame:
    """The points, those that nearly coincide on top of each other."""
    low, high = summary["min"], summary["max"]
    bins = 24
    width = (high - low) / bins or 1.0
    role = (
        pl.when(seed=summary["worst_seed"])
        .then(pl.lit("worst"))
        .when(seed=summary["best_seed"])
        .then(pl.lit("best"))
        .otherwise(pl.lit("other"))
    )
    return (
        values.sort("value")
        .with_columns(role=role, column=((pl.col("value") - low) / width).floor().clip(0, bins - 1))
        .with_columns(
            pile=pl.int_range(pl.len()).over("column") + 1,
            value=1000 * (low + (pl.col("column") + 0.5) * width),
        )
        .select("seed", "value", "pile", "role")
    )


def _over_time(cache: str, values: pl.DataFrame, over_time: pl.DataFrame) -> Any:
    """One line per placement (KH90 Figure 10); the worst and the best of the whole run stand out."""
    summary = summarise(values).row(0, named=True)
    ends = (
        over_time.sort("seed", "interval")
        .with_columns(at=pl.col("instructions").cum_sum().over("seed") / 1e6, value=1000 * pl.col("value"))
        .select("seed", "at", "value")
    )
    x = alt.X(
        "at:Q",
        title="instructions executed, millions",
        axis=alt.Axis(tickCount=8),
        scale=alt.Scale(nice=False),
    )
    y = alt.Y("value:Q", title=f"{cache} {PER_1000}", axis=alt.Axis(tickCount=6))
    several = values.height > 1
    worst, best = summary["worst_seed"], summary["best_seed"]
    others = ends.filter(~pl.col("seed").is_in([worst, best])) if several else ends
    layers = [
        alt.Chart(others)
        .mark_line(color=OTHERS, opacity=0.35, strokeWidth=0.8)
        .encode(x=x, y=y, detail="seed:N")
    ]
    if several:
        named = ends.filter(pl.col("seed").is_in([worst, best])).with_columns(
            role=pl.when(seed=worst).then(pl.lit("worst")).otherwise(pl.lit("best"))
        )
        legend = alt.Legend(
            title=None,
            orient="top-right",
            symbolStrokeWidth=2.5,
            labelFontSize=11,
            labelExpr=_legend(summary),
        )
        layers.append(
            alt.Chart(named)
            .mark_line(strokeWidth=1.6)
            .encode(x=x, y=y, color=alt.Color("role:N", scale=_roles(), legend=legend))
        )
    return alt.layer(*layers).properties(width=430, height=260)


def _roles() -> Any:
    return alt.Scale(domain=["worst", "best", "other"], range=[WORST, BEST, OTHERS])


def _legend(summary: dict[str, Any]) -> str:
    texts = {
        "worst": f"worst: seed {summary['worst_seed']}, {1000 * summary['max']:.4g}",
        "best": f"best: seed {summary['best_seed']}, {1000 * summary['min']:.4g}",
        "other": "the others",
    }
    return f"{texts!r}[datum.label]"
