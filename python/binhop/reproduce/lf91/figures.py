"""Draws LF91's seven figures from the tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.report import style
from binhop.reproduce.lf91.data import COLORS, HASHED, SIZES, TABLES, WORKLOADS, Lf91Data, Lf91Paper, mib

if TYPE_CHECKING:
    from pathlib import Path

PALETTE = (style.BLUE, style.ORANGE, style.GREEN, style.PINK, style.BLACK)
SHOWN = SIZES[2:]
"""Figures 3 to 7: 4 MB to 64 MB."""
WIDTH, HEIGHT = 380, 260


def draw(data: Lf91Data, directory: Path) -> list[Path]:
    """Draws every figure as PNG and SVG, and returns the files."""
    charts = {"figure-1": _figure_1(data), "figure-2": _figure_2(data)}
    charts |= {f"figure-{number + 1}": _rates(data, name) for name, number in TABLES.items()}
    return [path for stem, chart in charts.items() for path in style.save(chart, directory, stem)]


def _x() -> Any:
    return alt.X(
        "colors:Q",
        title="colors",
        scale=alt.Scale(type="log", base=2, domain=[1, 64], nice=False),
        axis=alt.Axis(values=[*COLORS], grid=False, format="d"),
    )


def _legend(title: str | None, dashed: bool = False) -> Any:
    return alt.Legend(
        title=title,
        orient="right",
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        symbolSize=300,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
        symbolStrokeColor="#333333" if dashed else alt.Undefined,
    )


def _figure_1(data: Lf91Data) -> Any:
    """Draws Figure 1: the model, and the runs that validate it."""
    rows = data.model.with_columns(memory=pl.col("size").map_elements(mib, return_dtype=pl.String))
    order = [mib(size) for size in rows["size"].unique().sort().to_list()]
    color = alt.Color(
        "memory:N", sort=order, scale=alt.Scale(domain=order, range=PALETTE[:4]), legend=_legend("memory")
    )
    base = alt.Chart(rows).encode(x=_x(), color=color)
    y = alt.Scale(domain=[0.6, 1.0], nice=False)
    title = "effective memory utilization"
    lines = base.mark_line(strokeWidth=1.8).encode(y=alt.Y("model:Q", title=title, scale=y))
    points = base.mark_circle(size=42, opacity=1).encode(y=alt.Y("monte_carlo:Q", title=title))
    chart = alt.layer(lines, points).properties(width=WIDTH + 120, height=HEIGHT + 40)
    runs = rows["runs"][0]
    return style.finish(
        chart,
        "Effective memory utilization by the model (LF91 Figure 1)",
        f"Lines: the model. Points: {runs} runs that allocate pages to random colors until one is full.",
    )


def _figure_2(data: Lf91Data) -> Any:
    """Draws Figure 2: utilization simulated, and by the model for memory of the program's size."""
    names = {name: name for name in WORKLOADS} | {HASHED: "mult, pid hash"}
    order = [*names.values()]
    rows = (
        data.utilization.with_columns(program=pl.col("workload").replace_strict(names))
        .unpivot(
            ["utilization", "model"], index=["program", "colors"], variable_name="by", value_name="value"
        )
        .drop_nulls("value")
        # The model knows no hash: the mix is drawn once.
        .filter(~((pl.col("program") == names[HASHED]) & (pl.col("by") == "model")))
        .with_columns(pl.col("by").replace("utilization", "simulated"))
    )
    lowest = min(rows["value"].to_list())
    color = alt.Color(
        "program:N",
        sort=order,
        scale=alt.Scale(domain=order, range=[*PALETTE, style.GREY]),
        legend=_legend("program"),
    )
    dash = alt.StrokeDash(
        "by:N",
        sort=["simulated", "model"],
        scale=alt.Scale(domain=["simulated", "model"], range=[[1, 0], [4, 3]]),
        legend=_legend("", dashed=True),
    )
    y = alt.Y(
        "value:Q",
        title="effective memory utilization",
        scale=alt.Scale(domain=[min(0.5, int(10 * lowest) / 10), 1.0], nice=False),
    )
    chart = (
        alt.Chart(rows)
        .mark_line(strokeWidth=1.8)
        .encode(x=_x(), y=y, color=color, strokeDash=dash)
        .properties(width=WIDTH + 120, height=HEIGHT + 40)
    )
    return style.finish(
        chart,
        "Effective memory utilization, simulated and by the model (LF91 Figure 2)",
        "Memory of each program's own size; pages allocated in order of first touch until one color is full.",
    )


def _rates(data: Lf91Data, workload: str) -> Any:
    """Draws figures 3 to 7: faults relative to one color, binhop's beside the paper's."""
    paper = Lf91Paper()
    rows = pl.DataFrame(
        [
            {"memory": mib(size), "colors": colors, "ratio": of.ratio(workload, size, colors), "by": by}
            for by, of in (("binhop", data), ("LF91", paper))
            for size in SHOWN
            for colors in COLORS
        ]
    )
    values = rows["ratio"].to_list()
    margin = max(0.05 * (max(values) - min(values)), 0.005)
    domain = [min(values) - margin, max(values) + margin]
    order = [mib(size) for size in SHOWN]
    panels = []
    for by, title in (("binhop", f"binhop, {_length(data, workload)}"), ("LF91", "the paper's table")):
        y = alt.Y(
            "ratio:Q",
            title="page faults relative to one color" if by == "binhop" else None,
            scale=alt.Scale(domain=domain, nice=False, zero=False),
        )
        color = alt.Color(
            "memory:N", sort=order, scale=alt.Scale(domain=order, range=PALETTE), legend=_legend("memory")
        )
        shape = alt.Shape("memory:N", sort=order, legend=None)
        base = alt.Chart(rows.filter(by=by)).encode(x=_x(), y=y, color=color)
        layers = [base.mark_line(strokeWidth=1.6), base.mark_point(size=36, filled=True).encode(shape=shape)]
        panels.append(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title))
    chart = alt.hconcat(*panels, spacing=28)
    return style.finish(
        chart,
        f"Page-fault rate of {workload} (LF91 Figure {TABLES[workload] + 1})",
        "Below 1: more colors mean fewer page faults. Lines that lie on each other show the last one.",
    )


def _length(data: Lf91Data, workload: str) -> str:
    references = data.references(workload) / 1e6
    return f"{references / 1000:.3g} G references" if references >= 500 else f"{references:.3g} M references"
