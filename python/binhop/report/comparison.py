"""Draws a comparison: every alternative's distribution, and the differences seed by seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.numbers import counted
from binhop.output import read_parquet
from binhop.report.style import BLACK, BLUE, GREY, ORANGE, finish, save
from binhop.summary import TOGETHER, as_one_workload, summarise

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

LESS, SAME, MORE = "less than the baseline", "the same", "more than the baseline"
COLUMNS = 44
"""The columns into which a row of points is divided. Points of one column lie above each other."""


def draw_comparison(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a comparison's directory, at the first metric whose values are not all equal."""
    place = Path(directory)
    values = read_parquet(place / "results.parquet").filter(phase="measured")
    differences = read_parquet(place / "differences.parquet")
    summary = read_parquet(place / "summary.parquet")
    if TOGETHER in summary["workload"] and TOGETHER not in values["workload"]:
        values = as_one_workload(values, by_trace=True)
    charts = comparison_charts(values, differences, summary)
    return [file for stem, _, chart in charts for file in save(chart, place, stem)]


def comparison_charts(
    values: pl.DataFrame, differences: pl.DataFrame, summary: pl.DataFrame
) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has a chart."""
    for workload in summary["workload"].unique(maintain_order=True):
        of = summary.filter(workload=workload)
        several = differences.filter(workload=workload)["seed"].n_unique() > 1
        names = of["metric"].unique(maintain_order=True).to_list()
        varied = [name for name in names if _varies(values, workload, name)]
        if not (varied and several):
            continue  # one number for each alternative needs no picture
        metric = varied[0]
        parts = [frame.filter(workload=workload, metric=metric) for frame in (values, differences, of)]
        chart = _figure(workload, metric, *parts)
        yield f"{workload}-{metric.removesuffix('.mpi')}", workload, chart


def comparison_words(differences: pl.DataFrame, summary: pl.DataFrame) -> dict[str, str]:
    """Returns for each workload the sentence in place of a picture."""
    words = {}
    for workload in summary["workload"].unique(maintain_order=True):
        seeds = differences.filter(workload=workload)["seed"].n_unique()
        same = "All alternatives have the same values under every seed."
        words[workload] = same if seeds > 1 else "One seed: the table shows a value for each alternative."
    return words


def _varies(values: pl.DataFrame, workload: str, metric: str) -> bool:
    return values.filter(workload=workload, metric=metric)["value"].n_unique() > 1


def _figure(
    workload: str, metric: str, values: pl.DataFrame, differences: pl.DataFrame, summary: pl.DataFrame
) -> Any:
    """Draws three panels side by side: the distributions, the differences, and their means in words."""
    names = values["alternative"].unique(maintain_order=True).to_list()
    base = summary["baseline"][0]
    scale, unit = (
        (1000.0, "misses per 1000 instructions") if metric.endswith(".mpi") else (1.0, values["unit"][0])
    )
    what = f"{metric.removesuffix('.mpi')} {unit}" if metric not in (unit, "cpi") else unit
    row = max(26.0, min(96.0, 420.0 / len(names)))
    y = alt.Y(
        "alternative:N", sort=names, title=None, axis=alt.Axis(labelLimit=240, domain=False, ticks=False)
    )
    bare = alt.Y("alternative:N", sort=names, title=None, axis=None)
    level = f"{100 * summary['confidence'][0]:g}%"
    placements = differences["seed"].n_unique()
    left = _distributions(values, scale, row, what, y, summary["confidence"][0])
    right = _differences(differences, summary, scale, row, f"difference in {what}", bare, names)
    chart = alt.hconcat(
        left.properties(width=330, title=f"Every seed a point; the mean and its {level} interval"),
        right.properties(width=330, title=f"Seed by seed, from {base}"),
        _words(summary, base, row, bare).properties(width=170),
        spacing=24,
    ).resolve_scale(color="independent")
    subtitle = "The same seed makes the same random draws, whose common effect cancels in the difference."
    shown = f"{' · '.join(names[:4])}{' …' * (len(names) > 4)}"
    return finish(chart, f"{workload}: {shown}, {counted(placements, 'seed')}", subtitle)


def _distributions(
    values: pl.DataFrame, scale: float, row: float, what: str, y: Any, confidence: float
) -> Any:
    means = summarise(values, confidence, ["alternative"]).with_columns(pl.col("mean", "low", "high") * scale)
    points = _swarm(values.select("alternative", value=pl.col("value") * scale).drop_nulls(), row)
    x = alt.X("value:Q", title=what, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=6))
    dots = alt.Chart(points).mark_circle(size=26, opacity=0.9, color=GREY)
    return alt.layer(
        dots.encode(x=x, y=y, yOffset=_offset(row)), *_mean(means, y, what), height=alt.Step(row)
    )


def _differences(
    differences: pl.DataFrame,
    summary: pl.DataFrame,
    scale: float,
    row: float,
    what: str,
    y: Any,
    names: list[str],
) -> Any:
    of = differences.select("alternative", value=pl.col("difference") * scale).drop_nulls()
    sign = pl.col("value")
    sides = pl.when(sign < 0).then(pl.lit(LESS)).when(sign > 0).then(pl.lit(MORE)).otherwise(pl.lit(SAME))
    points = _swarm(of, row).with_columns(side=sides)
    color = alt.Color(
        "side:N",
        scale=alt.Scale(domain=[LESS, SAME, MORE], range=[BLUE, GREY, ORANGE]),
        legend=alt.Legend(title=None, orient="bottom", labelFontSize=12, labelLimit=300),
    )
    x = alt.X("value:Q", title=what, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=6))
    everyone = alt.Y("alternative:N", sort=names, scale=alt.Scale(domain=names), title=None, axis=None)
    dots = alt.Chart(points).mark_circle(size=26, opacity=0.9)
    zero = alt.Chart(pl.DataFrame({"value": [0.0]})).mark_rule(color=BLACK, strokeDash=[3, 3])
    means = summary.select("alternative", pl.col("difference", "low", "high") * scale).rename(
        {"difference": "mean"}
    )
    return alt.layer(
        zero.encode(x=alt.X("value:Q", title=what)),
        dots.encode(x=x, y=everyone, yOffset=_offset(row), color=color),
        *_mean(means, everyone, what),
        height=alt.Step(row),
    )


def _words(summary: pl.DataFrame, base: str, row: float, y: Any) -> Any:
    """Draws each row's mean difference in words."""
    lines = [{"alternative": base, "text": "the baseline", "place": 0.0}]
    for each in summary.iter_rows(named=True):
        change = "" if each["relative"] is None else f"mean {100 * each['relative']:+.1f}%"
        same = each["ties"] == each["n"]
        seeds = f"seeds: {each['wins']} less, {each['losses']} more"
        if each["ties"]:
            seeds = f"seeds: {each['wins']} less, {each['ties']} same, {each['losses']} more"
        chance = "the same in every seed" if same else seeds
        for place, text in ((-7.0, change), (7.0, chance)):
            if not same or place > 0:
                lines.append(
                    {"alternative": each["alternative"], "text": text, "place": 0.0 if same else place}
                )
    return (
        alt.Chart(pl.DataFrame(lines))
        .mark_text(align="left", fontSize=11, color="#333333")
        .encode(y=y, yOffset=_offset(row, "place:Q"), text="text:N", x=alt.value(0))
        .properties(height=alt.Step(row))
    )


def _mean(means: pl.DataFrame, y: Any, what: str) -> list[Any]:
    """Draws the interval as a bar, and the mean as a stroke across it."""
    chart = alt.Chart(means)
    bar = chart.mark_rule(color=BLACK, strokeWidth=3).encode(x=alt.X("low:Q", title=what), x2="high:Q", y=y)
    stroke = chart.mark_tick(color=BLACK, thickness=2, size=16).encode(x=alt.X("mean:Q", title=what), y=y)
    return [bar, stroke]


def _offset(row: float, field: str = "offset:Q") -> Any:
    """Pixels above or below the middle of a row."""
    return alt.YOffset(field, scale=alt.Scale(domain=[-row / 2, row / 2], zero=False, nice=False))


def _swarm(points: pl.DataFrame, row: float) -> pl.DataFrame:
    """Returns the points with an offset. Points that nearly coincide lie above and below each other."""
    low, high = points["value"].min(), points["value"].max()
    width = ((high - low) or 1.0) / COLUMNS  # type: ignore[operator]
    column = ((pl.col("value") - low) / width).floor().clip(0, COLUMNS - 1)
    placed = (
        points.sort("alternative", "value")
        .with_columns(column=column)
        .with_columns(rank=pl.int_range(pl.len()).over("alternative", "column"))
    )
    reach = (int(placed["rank"].max() or 0) + 1) // 2  # type: ignore[arg-type]
    side = pl.when(pl.col("rank") % 2 == 0).then(1).otherwise(-1)
    step = min(6.0, (row / 2 - 5) / max(reach, 1))
    return placed.with_columns(offset=side * ((pl.col("rank") + 1) // 2) * step).select(
        "alternative", "value", "offset"
    )
