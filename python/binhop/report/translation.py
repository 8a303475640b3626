"""Draws translation: the overhead in cycles per instruction on each design, stacked by cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.numbers import counted
from binhop.output import read_parquet
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, finish, save
from binhop.translation_figures import ALL, CAUSE, POLLUTION

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

COLORS = {
    "second-level": SKY,
    "handler": BLUE,
    "data-miss": "#3d8fd0",
    "fetch-miss": "#94c4ea",
    "handler-fetch": GREEN,
    "handler-code": "#35bf93",
    "handler-code-memory": "#9fe0c9",
    "entries": ORANGE,
    "handler-data": "#eb8f43",
    "root-entry": "#8f3f00",
    "user-entry": "#f5c396",
    "write-back": PINK,
    POLLUTION: GREY,
}
"""The causes, in the order of the stack, and their colours.

Blue are the handler's instructions, green the waits for them, orange the waits for entries of page tables.
"""
MORE = (YELLOW,)
"""The colours of causes that `COLORS` does not name."""
WIDTH = 560
ROW = 34


def draw_translation(directory: str | os.PathLike[str]) -> list[Path]:
    """Draws the workload of a directory that `binhop translate` made, and returns the files."""
    place = Path(directory)
    charts = translation_charts(read_parquet(place / "summary.parquet"))
    return [file for stem, _, chart in charts for file in save(chart, place, stem)]


def translation_charts(summary: pl.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """Yields the name, workload and chart of each workload that has designs with costs."""
    for workload in summary["workload"].unique(maintain_order=True):
        of = summary.filter(workload=workload)
        stacked = stack(of)
        if stacked.height:
            yield f"{workload}-translation", workload, _figure(workload, of, stacked)


def translation_words(summary: pl.DataFrame) -> dict[str, str]:
    """Returns for each workload the sentence in place of a picture."""
    words = "No design states costs, so translation has no cycles."
    return dict.fromkeys(summary["workload"].unique(maintain_order=True).to_list(), words)


def stack(summary: pl.DataFrame) -> pl.DataFrame:
    """Returns the parts of each design's bar that are not zero, with the ends of each part.

    A part below zero (pollution may be) goes to the left of zero.
    """
    parts = summary.filter(
        (pl.col("group") == CAUSE) & (pl.col("metric") == "overhead")
        | (pl.col("group") == ALL) & (pl.col("metric") == POLLUTION)
    ).filter(pl.col("mean") != 0)
    rows: list[tuple[str, str, float, float, float]] = []
    for design in parts["design"].unique(maintain_order=True):
        of = parts.filter(design=design)
        means = dict(zip(of["name"].fill_null(POLLUTION), of["mean"], strict=True))
        ends = {True: 0.0, False: 0.0}
        for cause in sorted(means, key=_place):
            mean = means[cause]
            start = ends[mean >= 0]
            ends[mean >= 0] = start + mean
            rows.append((design, cause, mean, start, start + mean))
    schema = {
        "design": pl.String,
        "cause": pl.String,
        "mean": pl.Float64,
        "start": pl.Float64,
        "end": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _place(cause: str) -> tuple[int, str]:
    """Returns the place of a cause in the stack. An unknown cause stands before pollution."""
    known = [*COLORS]
    return (known.index(cause) if cause in COLORS else len(known) - 2, cause)


def _figure(workload: str, summary: pl.DataFrame, stacked: pl.DataFrame) -> Any:
    designs = stacked["design"].unique(maintain_order=True).to_list()
    there = sorted(stacked["cause"].unique().to_list(), key=_place)
    new = iter(MORE)
    colors = [COLORS.get(cause) or next(new, BLACK) for cause in there]
    names = {cause: cause.replace("-", " ") for cause in there}
    shown = stacked.with_columns(cause=pl.col("cause").replace(names))
    y = alt.Y("design:N", sort=designs, title=None, axis=alt.Axis(labelLimit=220, domain=False, ticks=False))
    color = alt.Color(
        "cause:N",
        sort=[*names.values()],
        scale=alt.Scale(domain=[*names.values()], range=colors),
        legend=alt.Legend(title=None, orient="bottom", labelFontSize=12, symbolType="square", columns=5),
    )
    x = alt.X("start:Q", title="cycles per instruction", axis=alt.Axis(tickCount=8, format="~g"))
    bars = alt.Chart(shown).mark_bar(size=20).encode(x=x, x2="end:Q", y=y, color=color)
    whole = (
        summary.filter(group=ALL, metric="overhead")
        .drop_nulls("mean")
        .filter(pl.col("design").is_in(designs))
    )
    share = summary.filter(group=ALL, metric="overhead_share").select("design", share="mean")
    right = stacked.group_by("design").agg(right=pl.col("end").max())
    lines = whole.join(share, on="design", how="left").join(right, on="design", how="left")
    words = lines.select(
        "design",
        right=pl.max_horizontal("right", "high"),
        text=pl.Series(
            [
                f"{mean:.4f} CPI, {share:.2%} of time"
                for mean, share in lines.select("mean", "share").iter_rows()
            ],
            dtype=pl.String,
        ),
    )
    text = alt.Chart(words).mark_text(align="left", dx=8, fontSize=11.5, color="#333333")
    layers = [bars, text.encode(x=alt.X("right:Q"), y=y, text="text:N")]
    n = max(whole["n"].to_list(), default=1)
    if n > 1:
        layers.insert(
            1, alt.Chart(whole).mark_rule(color=BLACK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y)
        )
    level = f"{100 * summary['confidence'][0]:g}%"
    said = [
        "Coloured: what the processor waits for translation. Grey: what the program itself waits longer.",
        f"{counted(n, 'placement')}"
        + (f"; the line is the {level} interval of the overhead without pollution." if n > 1 else "."),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=alt.Step(ROW))
    return finish(chart, f"{workload}: what address translation costs", said)
