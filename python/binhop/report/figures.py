"""Draws a run: the distribution of misses over placements, and over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.metrics import caches
from binhop.numbers import counted, rate
from binhop.output import read_parquet
from binhop.report.style import BLACK, BLUE, GREY, ORANGE, finish, save
from binhop.summary import summarise

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

WORST, BEST, OTHERS, MEAN = ORANGE, BLUE, GREY, BLACK
PER_1000 = "misses per 1000 instructions"
POINTS = 2000
"""The most points of a line over time: several for each of its pixels."""
ALL_POINTS = 30_000
"""The most points of all lines over time together: a figure of 200,000 takes 9 s and 1.4 GB."""
FEWEST_POINTS = 20
"""The points that a line may have however many lines there are."""


def draw(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a result's directory at its last cache, and returns the files."""
    place = Path(directory)
    results = read_parquet(place / "results.parquet").filter(phase="measured")
    charts = run_charts(results, pl.scan_parquet(place / "series.parquet", glob=False))
    return [file for stem, _, chart in charts for file in save(chart, place, stem)]


def run_charts(results: pl.DataFrame, series: pl.LazyFrame) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has a chart."""
    for workload in results["workload"].unique(maintain_order=True):
        of = results.filter(workload=workload)
        metric = f"{caches(of['metric'].unique(maintain_order=True))[-1]}.mpi"
        values = of.filter(metric=metric).drop_nulls("value")
        most = min(POINTS, max(FEWEST_POINTS, ALL_POINTS // of["seed"].n_unique()))
        over_time = steps(series.filter(workload=workload, metric=metric).drop_nulls("value"), most)
        if values["value"].n_unique() < 2 and over_time.is_empty():
            continue  # one number needs no picture
        chart = _figure(workload, metric.removesuffix(".mpi"), values, over_time)
        yield f"{workload}-{metric.removesuffix('.mpi')}", workload, chart


def run_words(results: pl.DataFrame) -> dict[str, str]:
    """Returns for each workload the sentence in place of a picture: every placement has the same value."""
    words = {}
    for workload in results["workload"].unique(maintain_order=True):
        of = results.filter(workload=workload)
        cache = caches(of["metric"].unique(maintain_order=True))[-1]
        values = of.filter(metric=f"{cache}.mpi")
        value = values["value"][0]
        if value is None:
            words[workload] = f"There are no {cache} {PER_1000}: nothing was executed."
        elif values.height == 1:
            words[workload] = f"One placement: {rate(value)} {cache} {PER_1000}."
        else:
            same = f"All {values.height} placements are equal"
            words[workload] = f"{same}: {rate(value)} {cache} {PER_1000}."
    return words


def steps(series: pl.LazyFrame, most: int = POINTS) -> pl.DataFrame:
    """Joins consecutive intervals of misses per instruction until a line has at most so many points.

    >>> rows = {"seed": [0] * 4, "interval": range(4), "instructions": [10] * 4, "value": [0.1, 0.3, 0, 0.1]}
    >>> steps(pl.LazyFrame(rows), most=2)["value"].to_list()
    [0.2, 0.05]
    """
    series = series.select("seed", "interval", "instructions", "value")
    last = series.select(pl.max("interval")).collect(engine="streaming").item()
    step = (last or 0) // most + 1
    if step == 1:
        return series.collect()
    # Counts are whole numbers: their sum does not depend on the order in which rows come.
    misses = (pl.col("value") * pl.col("instructions")).round().cast(pl.Int64).sum()
    instructions = pl.sum("instructions")
    joined = series.group_by("seed", pl.col("interval") // step).agg(
        instructions=instructions, value=misses / instructions
    )
    return joined.collect(engine="streaming").sort("seed", "interval")


def _figure(workload: str, cache: str, values: pl.DataFrame, over_time: pl.DataFrame) -> Any:
    """Draws the parts of a figure side by side."""
    parts: list[Any] = []
    several = values["value"].n_unique() > 1
    if several:
        parts.append(_distribution(cache, values))
    if not over_time.is_empty():
        parts.append(_over_time(cache, values, over_time))
    title = f"{workload} on {values['machine'][0]}: {counted(values.height, 'page placement')}"
    subtitle = "One point and one line for each placement; nothing else differs." if several else ""
    return finish(alt.hconcat(*parts, spacing=36).resolve_scale(color="independent"), title, subtitle)


def _distribution(cache: str, values: pl.DataFrame) -> Any:
    """Draws a point for each placement, near points stacked, with the mean and its interval behind them."""
    summary = summarise(values).row(0, named=True)
    points = _piled(values, summary)
    low, high = 1000 * summary["min"], 1000 * summary["max"]
    margin = 0.05 * (high - low or high or 1)
    x = alt.X(
        "value:Q",
        title=f"{cache} {PER_1000}",
        scale=alt.Scale(domain=[low - margin, high + margin], zero=False, nice=False),
        axis=alt.Axis(tickCount=5, grid=False),
    )
    tallest = max(points["pile"].to_list())
    y = alt.Y(
        "pile:Q",
        title="placements",
        scale=alt.Scale(domainMin=0, domainMax=max(tallest + 1, 6), nice=5),
        axis=alt.Axis(tickMinStep=1, tickCount=5),
    )
    color = alt.Color("role:N", scale=_roles(), legend=None)
    dots = alt.Chart(points).mark_circle(size=75, opacity=1).encode(x=x, y=y, color=color)
    mean = pl.DataFrame({name: [1000 * summary[name]] for name in ("mean", "low", "high")})
    band = (
        alt.Chart(mean)
        .mark_rect(color="#EFE9CF")
        .encode(x=alt.X("low:Q", title=f"{cache} {PER_1000}"), x2="high:Q")
    )
    rule = alt.Chart(mean).mark_rule(color=MEAN, strokeWidth=1.5).encode(x="mean:Q")
    m, lo, hi = (_short(1000 * summary[name]) for name in ("mean", "low", "high"))
    title = f"The whole run: mean {m} (line), 95% interval {lo} to {hi} (band)"
    return alt.layer(band, rule, dots).properties(width=340, height=250, title=title)


def _piled(values: pl.DataFrame, summary: dict[str, Any]) -> pl.DataFrame:
    """Returns the points in columns. Points that nearly coincide share a column."""
    low, columns = summary["min"], 28
    width = (summary["max"] - low) / columns
    return (
        values.sort("value")
        .with_columns(
            role=_role(summary), column=((pl.col("value") - low) / width).floor().clip(0, columns - 1)
        )
        .with_columns(
            pile=pl.int_range(pl.len()).over("column") + 1,
            value=1000 * (low + (pl.col("column") + 0.5) * width),
        )
        .select("seed", "value", "pile", "role")
    )


def _over_time(cache: str, values: pl.DataFrame, over_time: pl.DataFrame) -> Any:
    """Draws a line for each placement (KH90 Figure 10). The worst and the best of the run stand out."""
    summary = summarise(values).row(0, named=True)
    several = values["value"].n_unique() > 1
    lines = (
        over_time.sort("seed", "interval")
        .with_columns(
            at=pl.col("instructions").cum_sum().over("seed") / 1e6,
            value=1000 * pl.col("value"),
            role=_role(summary) if several else pl.lit("other"),
        )
        .select("seed", "at", "value", "role")
    )
    end = max(lines["at"].to_list())
    x = alt.X(
        "at:Q",
        title="instructions executed, millions",
        axis=alt.Axis(tickCount=8, grid=False),
        scale=alt.Scale(domain=[0, end], nice=False),
    )
    y = alt.Y("value:Q", title=f"{cache} {PER_1000}", scale=alt.Scale(nice=6), axis=alt.Axis(tickCount=6))
    legend = alt.Legend(
        title=None,
        orient="bottom",
        symbolType="stroke",
        symbolStrokeWidth=3,
        symbolOpacity=1,
        labelFontSize=12,
        labelLimit=400,
        labelExpr=_legend(summary, values.height),
        offset=6,
    )
    color = alt.Color("role:N", scale=_roles(), legend=legend if several else None)
    faint = alt.Chart(lines.filter(role="other")).mark_line(opacity=0.35, strokeWidth=0.9)
    strong = alt.Chart(lines.filter(pl.col("role") != "other")).mark_line(strokeWidth=1.8)
    layers = [chart.encode(x=x, y=y, color=color, detail="seed:N") for chart in (faint, strong)]
    title = f"Over time, in steps of {_round(max(over_time['instructions'].to_list()))} instructions"
    return alt.layer(*layers).properties(width=440, height=250, title=title)


def _role(summary: dict[str, Any]) -> pl.Expr:
    return (
        pl.when(seed=summary["worst_seed"])
        .then(pl.lit("worst"))
        .when(seed=summary["best_seed"])
        .then(pl.lit("best"))
        .otherwise(pl.lit("other"))
    )


def _roles() -> Any:
    return alt.Scale(domain=["worst", "best", "other"], range=[WORST, BEST, OTHERS])


def _legend(summary: dict[str, Any], placements: int) -> str:
    """Returns a Vega expression that names the lines."""
    texts = {
        "worst": f"worst: seed {summary['worst_seed']}, {_short(1000 * summary['max'])}",
        "best": f"best: seed {summary['best_seed']}, {_short(1000 * summary['min'])}",
        "other": f"the other {placements - 2}",
    }
    return f"{texts!r}[datum.label]"


def _short(number: float) -> str:
    return f"{number:#.4g}".rstrip(".")


def _round(count: int) -> str:
    """Rounds 1 000 003 to 1 M: a row counts entirely in the interval in which it begins."""
    suffix, unit = next(
        (s, u) for s, u in ((" G", 10**9), (" M", 10**6), (" k", 10**3), ("", 1)) if count >= u
    )
    return f"{count / unit:.3g}{suffix}"
