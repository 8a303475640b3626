"""Draws MB90's nine figures from the tables of a run. Open marks show the paper's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.report.style import BLUE, GREEN, ORANGE, finish, save
from binhop.report.switches import ALL, cause_color, named_causes
from binhop.reproduce.mb90.paper import WORKLOADS, Mb90Paper

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.reproduce.mb90.data import Mb90Data

TIMESHARING, COMPUTE, SERVER = WORKLOADS
WIDTH, HEIGHT = 560, 280
TRIAL = 0
"""The trial that Figures 1 to 7 show, on design 1a: the paper's trials A, B and C."""
COLORS = {TIMESHARING: BLUE, COMPUTE: ORANGE, SERVER: GREEN}


def draw(data: Mb90Data, directory: Path) -> list[Path]:
    """Draws every figure as PNG and SVG, and returns the files."""
    return [path for stem, chart in all_figures(data).items() for path in save(chart, directory, stem)]


def all_figures(data: Mb90Data) -> dict[str, Any]:
    """Returns every figure by the name of its file."""
    trial_a = named_causes(data.mean_curves("1a", TIMESHARING, TRIAL))
    return {
        "figure-1": _segments(trial_a),
        "figure-2": _over_time(
            trial_a, "cpi_shared", "CPI, shared caches", "Figure 2: CPI in the shared caches"
        ),
        "figure-3": _over_time(
            trial_a, "cpi_private", "CPI, private caches", "Figure 3: CPI in caches of its own"
        ),
        "figure-4": _over_time(
            trial_a, "excess", "excess CPI", "Figure 4: excess CPI, the difference of Figures 2 and 3"
        ),
        "figure-5": _cumulative(trial_a, "Figure 5: cumulative excess cycles after a switch", TIMESHARING),
        "figure-6": _cumulative(
            named_causes(data.mean_curves("1a", COMPUTE, TRIAL)),
            "Figure 6: cumulative excess cycles",
            COMPUTE,
        ),
        "figure-7": _cumulative(
            named_causes(data.mean_curves("1a", SERVER, TRIAL)), "Figure 7: cumulative excess cycles", SERVER
        ),
        "figure-8": _ratios(data, [("1a", "2a")], "Figure 8: overhead ratio against technology"),
        "figure-9": _ratios(data, [("1a", "1b"), ("2a", "2b")], "Figure 9: overhead ratio against size"),
    }


def _x(title: str = "instructions since the switch") -> Any:
    return alt.X("at:Q", title=title, axis=alt.Axis(grid=False, format="~s", tickCount=8))


def _width() -> Any:
    return alt.condition(alt.datum.cause == ALL, alt.value(2.6), alt.value(1.5))


def _segments(curves: pl.DataFrame) -> Any:
    """Draws Figure 1: the share of segments that are longer than a number of instructions."""
    ends = curves.select("cause", pl.col("since").alias("at"), "alive")
    starts = ends.unique("cause", maintain_order=True).with_columns(
        at=pl.lit(0, pl.Int64), alive=pl.lit(1.0, pl.Float64)
    )
    rows = pl.concat([starts, ends])
    y = alt.Y("alive:Q", title="segments at least so long", axis=alt.Axis(format="%"))
    median = alt.Chart(pl.DataFrame({"alive": [0.5]})).mark_rule(strokeDash=[3, 3], color="#888888")
    lines = (
        alt.Chart(rows)
        .mark_line()
        .encode(x=_x("instructions"), y=y, color=cause_color(rows), strokeWidth=_width())
    )
    return finish(
        alt.layer(median.encode(y="alive:Q"), lines).properties(width=WIDTH, height=HEIGHT),
        f"Figure 1: lengths of segments, {TIMESHARING}",
        "Trial 0. A line crosses 50% at the median length.",
    )


def _over_time(curves: pl.DataFrame, column: str, axis: str, title: str) -> Any:
    """Draws Figures 2 to 4: CPI over instructions since the switch, by cause."""
    rows = curves.filter("counted").select("cause", "at", pl.col(column).alias("value"))
    y = alt.Y("value:Q", title=axis, scale=alt.Scale(zero=column == "excess", nice=True))
    chart = (
        alt.Chart(rows)
        .mark_line()
        .encode(x=_x(), y=y, color=cause_color(rows), strokeWidth=_width())
        .properties(width=WIDTH, height=HEIGHT)
    )
    said = "Trial 0, design 1a, mean over placements. A curve ends where fewer than 10% of its segments live."
    return finish(chart, f"{title} ({TIMESHARING})", said)


def _cumulative(curves: pl.DataFrame, title: str, workload: str) -> Any:
    """Draws Figures 5 to 7: the integral of the excess of all switches."""
    rows = curves.filter(pl.col("cause") == ALL).select(
        pl.col("since").alias("at"), pl.col("cumulative").alias("value"), "counted"
    )
    start = pl.DataFrame({"at": [0], "value": [0.0], "counted": [True]}, schema=rows.schema)
    rows = pl.concat([start, rows])
    y = alt.Y("value:Q", title="cumulative excess cycles")
    base = alt.Chart(rows).encode(x=_x(), y=y)
    whole = base.transform_filter("datum.counted").mark_line(strokeWidth=2.4, color=COLORS[workload])
    rest = base.mark_line(strokeWidth=1.4, strokeDash=[3, 3], color=COLORS[workload])
    average = rows.filter("counted")["value"][-1]
    chart = alt.layer(rest, whole).properties(width=WIDTH, height=HEIGHT)
    return finish(
        chart,
        f"{title} ({workload})",
        [
            "Trial 0, design 1a. The last point of the solid line is the paper's average cost: "
            f"{average:,.0f} cycles.",
            "Beyond it, fewer than 10% of the segments are alive.",
        ],
    )


def _ratios(data: Mb90Data, pairs: list[tuple[str, str]], title: str) -> Any:
    """Draws Figures 8 and 9: the overhead ratio of pairs of designs, trial by trial."""
    paper = Mb90Paper()
    means, marks = [], []
    for small, large in pairs:
        for workload in WORKLOADS:
            for design in (small, large):
                cell = data.measure(design, workload)
                means.append((f"{small}, {large}", design, workload, 100 * cell.mean))
                for trial in data.trials[design, workload]:
                    ratio = 100 * float(data.of_trial(design, workload, trial).mean())
                    marks.append((f"{small}, {large}", design, workload, ratio, "binhop"))
                for theirs in paper.of(design, workload):
                    marks.append((f"{small}, {large}", design, workload, float(theirs.ratio), "MB90"))
    schema = ["pair", "design", "workload", "ratio"]
    lines = pl.DataFrame(means, schema=schema, orient="row")
    points = pl.DataFrame(marks, schema=[*schema, "by"], orient="row")
    most = 1.08 * max(points["ratio"].to_list())
    panels = []
    for small, large in pairs:
        pair = f"{small}, {large}"
        x = alt.X("design:N", title=None, sort=[small, large], axis=alt.Axis(labelAngle=0, grid=False))
        y = alt.Y("ratio:Q", title="overhead ratio, %", scale=alt.Scale(domain=[0, most], nice=False))
        legend = alt.Legend(
            title=None, orient="right", labelFontSize=12, symbolOpacity=1, symbolType="circle"
        )
        color = alt.Color(
            "workload:N",
            sort=[*COLORS],
            scale=alt.Scale(domain=[*COLORS], range=[*COLORS.values()]),
            legend=legend,
        )
        line = alt.Chart(lines.filter(pair=pair)).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color)
        base = alt.Chart(points.filter(pair=pair))
        ours = base.transform_filter("datum.by == 'binhop'").mark_point(size=50, filled=True, opacity=1)
        theirs_marks = base.transform_filter("datum.by == 'MB90'").mark_point(
            size=70, filled=False, shape="diamond", strokeWidth=1.5, opacity=1
        )
        layers = [line, ours.encode(x=x, y=y, color=color), theirs_marks.encode(x=x, y=y, color=color)]
        panels.append(alt.layer(*layers).properties(width=230, height=HEIGHT))
    return finish(
        alt.hconcat(*panels, spacing=30),
        title,
        "Filled marks: trials of binhop, lines their means. Open marks: trials of the paper.",
    )
