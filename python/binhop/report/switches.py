"""Draws switches: the excess over instructions since the switch by cause, and how many segments are left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import json_file
from binhop.lazy_imports import alt, pl
from binhop.numbers import counted
from binhop.output import MARK, read_parquet
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, finish, save
from binhop.switch_cost import CONFIDENCE, CUT
from binhop.switch_summary import mean_curves

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

ALL = "all switches"
COLORS = {
    ALL: BLACK,
    "involuntary": BLUE,
    "system call": ORANGE,
    "page fault": GREEN,
    "start": PINK,
    "unknown": GREY,
}
"""The causes, in the order of the legend, and their colours."""
WIDTH = 640


def draw_switches(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws each workload of a directory that `binhop switches` made, and returns the files."""
    place = Path(directory)
    curves = read_parquet(place / "curves.parquet")
    confidence = json_file.read(place / MARK).get("confidence", CONFIDENCE)
    return [file for stem, _, chart in switch_charts(curves, confidence) for file in save(chart, place, stem)]


def switch_charts(curves: pl.DataFrame, confidence: float = CONFIDENCE) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has a chart."""
    for workload in curves["workload"].unique(maintain_order=True):
        of = curves.filter(workload=workload)
        means = named_causes(mean_curves(of, confidence))
        shown = means.filter(pl.col("alive") >= CUT, pl.col("since") <= _end(means))
        if shown.height:
            placements = curves["seed"].n_unique()
            yield (
                f"{workload}-switches",
                workload,
                _figure(workload, means, shown, _rare(of), placements, confidence),
            )


def switch_words(curves: pl.DataFrame) -> dict[str, str]:
    """Returns for each workload the sentence in place of a picture."""
    words = "Fewer than a tenth of the segments are as long as one interval."
    return dict.fromkeys(curves["workload"].unique(maintain_order=True).to_list(), words)


def named_causes(means: pl.DataFrame) -> pl.DataFrame:
    """Returns the curves with the causes as a reader names them, and with the middle of each interval."""
    step = pl.col("since").min()
    return means.with_columns(
        cause=pl.col("cause").str.replace("-", " ").fill_null(ALL), at=pl.col("since") - step / 2
    )


def cause_color(means: pl.DataFrame) -> Any:
    """Returns the colours of the causes that are there, with a legend."""
    there = [cause for cause in COLORS if cause in means["cause"]]
    legend = alt.Legend(
        title=None,
        orient="right",
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        symbolOpacity=1,
        labelFontSize=12,
    )
    scale = alt.Scale(domain=there, range=[COLORS[cause] for cause in there])
    return alt.Color("cause:N", sort=there, scale=scale, legend=legend)


def _end(means: pl.DataFrame) -> int:
    """Returns the instructions at which the picture ends: where the curve over all switches ends."""
    alive = means.filter(pl.col("alive") >= CUT)
    whole = alive.filter(cause=ALL)
    return max((whole if whole.height else alive)["since"].to_list(), default=0)


def _rare(curves: pl.DataFrame) -> list[str]:
    """Returns the causes of fewer than `CUT` of the segments, as a reader names them."""
    first = curves.filter(pl.col("asid").is_null(), pl.col("number") == 0, interval=curves["interval"].min())
    counts = first.group_by("cause").agg(pl.col("segments").sum())
    most = max(counts["segments"].to_list(), default=0)
    return (
        counts.filter(pl.col("segments") < CUT * most)["cause"].drop_nulls().str.replace("-", " ").to_list()
    )


def _domain(shown: pl.DataFrame, rare: list[str]) -> list[float]:
    """Returns the excess that the picture shows: that of segments to which a process returned.

    Other processes may have brought in the code of a new process. Its excess is then far below zero for a
    moment, and so may be the mean of all switches: it is shown as far below zero as the others reach above. A
    rare cause is left out, because its few segments would flatten the curves of the others.
    """
    columns = ["excess", "low", "high"]
    returns = shown.filter(~pl.col("cause").is_in(["start", ALL, *rare]))
    values = (returns if returns.height else shown).select(columns).unpivot()["value"]
    known = [0.0, *values.drop_nulls().to_list()]
    whole = shown.filter(cause=ALL).select(columns).unpivot()["value"].drop_nulls().to_list()
    known += [min(max(value, -max(known)), max(known)) for value in whole]
    margin = 0.05 * (max(known) - min(known)) or 0.01
    return [min(known) - margin if min(known) < 0 else 0.0, max(known) + margin]


def _figure(
    workload: str,
    means: pl.DataFrame,
    shown: pl.DataFrame,
    rare: list[str],
    placements: int,
    confidence: float,
) -> Any:
    most = max(shown["since"].to_list())
    scale = alt.Scale(domain=[0, most], nice=False)
    color = cause_color(shown)
    bottom, top = drawn = _domain(shown, rare)
    seen = pl.col("excess").is_between(bottom, top)
    inside = shown.with_columns(
        excess=pl.when(seen).then(pl.col("excess")),
        low=pl.when(seen).then(pl.col("low").clip(bottom, top)),
        high=pl.when(seen).then(pl.col("high").clip(bottom, top)),
    )
    base = alt.Chart(inside)
    x = alt.X("at:Q", title=None, scale=scale, axis=alt.Axis(grid=False, format="~s", tickCount=8))
    y = alt.Y(
        "excess:Q", title="excess CPI: shared less private", scale=alt.Scale(domain=drawn), axis=alt.Axis()
    )
    width = alt.condition(alt.datum.cause == ALL, alt.value(2.6), alt.value(1.5))
    layers = [base.mark_line().encode(x=x, y=y, color=color, strokeWidth=width)]
    if placements > 1:
        band = base.mark_area(opacity=0.15).encode(x=x, y="low:Q", y2="high:Q", color=color)
        layers.insert(0, band)
    upper = alt.layer(*layers).properties(width=WIDTH, height=260)
    ends = means.filter(pl.col("since") <= most).select("cause", "since", "alive")
    starts = ends.unique("cause", maintain_order=True).with_columns(
        since=pl.lit(0, pl.Int64), alive=pl.lit(1.0)
    )
    survivors = (
        alt.Chart(pl.concat([starts, ends]))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X(
                "since:Q",
                title="instructions since the switch",
                scale=scale,
                axis=alt.Axis(grid=False, format="~s", tickCount=8),
            ),
            y=alt.Y("alive:Q", title="segments alive", axis=alt.Axis(format="%", tickCount=3)),
            color=color,
            strokeWidth=width,
        )
        .properties(width=WIDTH, height=90)
    )
    said = [
        "Excess CPI is what a process waits longer in the shared caches than in caches of its own, per "
        "instruction.",
        f"A curve ends where fewer than {CUT:.0%} of its segments are alive. "
        f"{counted(placements, 'placement')}"
        + (f"; the band is the {100 * confidence:g}% interval of the mean." if placements > 1 else "."),
    ]
    if inside["excess"].null_count():
        said.append(
            "Parts of curves lie outside: of first segments (start), which share what others have read, or "
            "of rare causes."
        )
    machine = means["machine"][0]
    return finish(
        alt.vconcat(upper, survivors, spacing=8), f"{workload} on {machine}: what a switch costs", said
    )
