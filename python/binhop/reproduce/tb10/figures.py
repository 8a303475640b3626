"""Draws TB10's figures: request sizes, reuse distances, speed-ups, hit rates, and where rows conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.device_data_figures import CLASSES
from binhop.lazy_imports import alt, pl
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, finish, save
from binhop.reproduce.tb10 import paper
from binhop.reproduce.tb10.forms import BACK, BASELINE, HINT, SHARED, SIZES, THROUGH, Form, ddc, pbdc
from binhop.reproduce.tb10.study import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from binhop.reproduce.tb10.data import Tb10Data

BY_CLASS = dict(zip(CLASSES, (BLUE, SKY, GREEN, ORANGE), strict=True))
OURS, DOCUMENT = "binhop", "document"
SERIES = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, BLACK, GREY)
FLOWS = {
    "Figure 4: DPCC": ("dpcc", "together"),
    "Figure 5: CPDC": ("cpdc", "together"),
    "Figure 6: CPU": ("cpu", "together"),
    "Figure 15: DPCC, separated": ("dpcc", "separated"),
}
"""The panels of reuse distances: flow and stream."""


def draw(data: Tb10Data, directory: Path) -> list[Path]:
    """Draws every figure as PNG and SVG, and returns the files."""
    return [path for stem, chart in all_figures(data).items() for path in save(chart, directory, stem)]


def all_figures(data: Tb10Data) -> dict[str, Any]:
    """Returns every figure by the name of its file."""
    return {
        "figure-3": _sizes(data),
        "figures-4-5-6-15": _distances(data),
        "figures-13-16": _policies(data),
        "figures-14-17": _rates(data),
        "figures-18-19": _conflicts(data),
        "figures-20-21": _schemes(data),
    }


def _cumulative(rows: pl.DataFrame, x: str, weight: str, by: Sequence[str]) -> pl.DataFrame:
    """Returns the cumulative shares in percent at the end of each class [x, 2x), for each group."""
    summed = rows.group_by(*by, x).agg(pl.col(weight).sum()).sort(*by, x, nulls_last=True)
    share = 100 * pl.col(weight).cum_sum() / pl.col(weight).sum()
    return (
        summed.with_columns(share.over(by).alias("share"), (2 * pl.col(x)).clip(lower_bound=1).alias("end"))
        .filter(pl.col(x).is_not_null())
        .sort(*by, "end")
    )


def _lines(rows: pl.DataFrame, x: Any, names: Sequence[str]) -> Any:
    """Returns lines over a cumulative share, one for each series."""
    colors = [SERIES[number % len(SERIES)] for number in range(len(names))]
    return (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=22), interpolate="linear")
        .encode(
            x=x,
            y=alt.Y("share:Q", title="cumulative share, %", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "series:N",
                sort=list(names),
                scale=alt.Scale(domain=list(names), range=colors),
                legend=alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3, labelLimit=300),
            ),
        )
    )


def _sizes(data: Tb10Data) -> Any:
    """Draws Figure 3: the cumulative distribution of the sizes of requests for data."""
    rows = data.sizes.filter(pl.col("kind") == "forms", ~pl.col("device").str.ends_with("-ring"))
    series = pl.concat_str("workload", "device", "direction", separator=" ").alias("series")
    shares = _cumulative(rows.with_columns(series), "size", "requests", ["series"])
    shares = shares.with_columns((pl.col("end") / 1024).alias("kib"))
    names = shares["series"].unique().sort().to_list()
    x = alt.X("kib:Q", title="size of the request, KiB, below", scale=alt.Scale(type="log", base=2))
    return finish(
        _lines(shares, x, names).properties(width=520, height=300),
        "Figure 3: sizes of requests",
        "Classes of powers of two. Each point is the end of its class.",
    )


def _distances(data: Tb10Data) -> Any:
    """Draws Figures 4, 5, 6 and 15: the cumulative distributions of reuse distances."""
    of_data = data.distances.filter(
        pl.col("kind") == "forms", ~pl.col("device").fill_null("").str.ends_with("-ring")
    )
    series = pl.concat_str(["workload", pl.col("device").fill_null("processor")], separator=" ")
    every = of_data.with_columns(series.alias("series"))
    names = every["series"].unique().sort().to_list()
    panels = {
        title: _cumulative(every.filter(flow=flow, stream=stream), "distance", "references", ["series"])
        for title, (flow, stream) in FLOWS.items()
    }
    # All panels have one axis, which the longest distance of any panel fits.
    longest = max([2**22, *(end for shares in panels.values() for end in shares["end"].to_list())])
    x = alt.X(
        "end:Q",
        title="reuse distance in lines, below",
        scale=alt.Scale(type="log", base=2, domain=[1, longest]),
    )
    return finish(
        alt.concat(
            *(
                _lines(shares, x, names).properties(width=330, height=220, title=title)
                for title, shares in panels.items()
            ),
            columns=2,
            spacing=24,
        ),
        "Reuse distances of device data and of the processor's data",
        "First references to a line count as far away. 32K lines are 2 MiB.",
    )


def _bars(panels: Mapping[str, Sequence[tuple[str, Form]]], data: Tb10Data) -> Any:
    """Returns bars of speed-ups with intervals, and the document's figures as ticks, for each panel."""
    charts = []
    for title, forms in panels.items():
        rows = []
        for workload in WORKLOADS:
            for label, form in forms:
                own = data.speed_up(workload, form)
                told = paper.speed_up(workload, form.name)
                low, high = (bound if abs(bound) < 1e9 else own.mean for bound in own.interval)
                rows.append((workload, label, own.mean, low, high, told))
        names = ("workload", "form", "value", "low", "high", "told")
        frame = pl.DataFrame(rows, schema=names, orient="row")
        labels = [label for label, _ in forms]
        base = alt.Chart(frame).encode(
            x=alt.X("form:N", sort=labels, title=None, axis=alt.Axis(labelAngle=-35))
        )
        bars = base.mark_bar(size=13).encode(
            y=alt.Y("value:Q", title="speed-up, %"),
            color=alt.Color(
                "workload:N",
                sort=[*WORKLOADS],
                scale=alt.Scale(domain=[*WORKLOADS], range=[BLUE, GREEN, YELLOW]),
                legend=None,
            ),
        )
        rule = base.mark_rule(color=BLACK).encode(y="low:Q", y2="high:Q")
        tick = base.transform_filter("isValid(datum.told)").mark_tick(
            color=ORANGE, thickness=3, width=20, orient="horizontal"
        )
        layered = alt.layer(bars, rule, tick.encode(y="told:Q")).properties(
            width=24 * len(labels) + 10, height=210
        )
        column = alt.Column(
            "workload:N",
            sort=[*WORKLOADS],
            title=title,
            header=alt.Header(titleFontSize=12, labelFontSize=11),
        )
        charts.append(layered.facet(column=column))
    return alt.vconcat(*charts, spacing=20)


def _policies(data: Tb10Data) -> Any:
    """Draws Figures 13 and 16: speed-ups of shared-cache and of DMA caches, by write policy."""
    panels = {}
    for title, write in (("Figure 13: written back", BACK), ("Figure 16: written through", THROUGH)):
        forms = [("shared", Form(SHARED, write=write))]
        for size in SIZES:
            forms += [
                (f"{size}K {'P' if prefetch else 'NP'}", ddc(size, write=write, prefetch=prefetch))
                for prefetch in (True, False)
            ]
        panels[title] = forms
    return finish(
        _bars(panels, data),
        "Speed-up of shared-cache, and of DMA caches by size",
        "Orange ticks are the document's figures, where it states them. P: with prefetcher. 2 MiB last "
        "level.",
    )


def _schemes(data: Tb10Data) -> Any:
    """Draws Figures 20 and 21: the schemes beside each other."""
    panels = {}
    for title, last_level in (("Figure 20: 2 MiB last level", 2), ("Figure 21: 4 MiB last level", 4)):
        panels[title] = [
            ("hint", Form(HINT, last_level)),
            ("shared", Form(SHARED, last_level)),
            ("PBDC 1", pbdc(1, last_level=last_level)),
            ("PBDC 2", pbdc(2, last_level=last_level)),
            ("DDC 128K", ddc(128, last_level=last_level)),
            ("DDC 256K", ddc(256, last_level=last_level)),
        ]
    return finish(
        _bars(panels, data),
        "Speed-up of the schemes, written through",
        "Orange ticks are the document's figures, where it states them. PBDC has 1 or 2 of 16 ways.",
    )


def _rates(data: Tb10Data) -> Any:
    """Draws Figures 14 and 17: hit rates for I/O data, and writes that replace dirty lines."""
    forms = [("shared", Form(SHARED, write=BACK))]
    for size in SIZES:
        forms += [
            (f"{size}K {'P' if prefetch else 'NP'}", ddc(size, write=BACK, prefetch=prefetch))
            for prefetch in (True, False)
        ]
    rows = [
        (workload, label, panel, value.mean)
        for workload in WORKLOADS
        for label, form in forms
        for panel, value in (
            ("Figure 14: references to I/O data that a cache serves", data.hit_rate(workload, form)),
            ("Figure 17: writes of devices that replace a dirty line", data.replacing_dirty(workload, form)),
        )
    ]
    frame = pl.DataFrame(rows, schema=["workload", "form", "panel", "value"], orient="row")
    charts = []
    for panel in frame["panel"].unique(maintain_order=True):
        charts.append(
            alt.Chart(frame.filter(panel=panel))
            .mark_bar()
            .encode(
                x=alt.X(
                    "form:N", sort=[label for label, _ in forms], title=None, axis=alt.Axis(labelAngle=-35)
                ),
                xOffset=alt.XOffset("workload:N", sort=[*WORKLOADS]),
                y=alt.Y("value:Q", title="%", scale=alt.Scale(domain=[0, 100])),
                color=alt.Color(
                    "workload:N",
                    sort=[*WORKLOADS],
                    scale=alt.Scale(domain=[*WORKLOADS], range=[BLUE, GREEN, YELLOW]),
                    legend=alt.Legend(title=None),
                ),
            )
            .properties(width=620, height=180, title=panel)
        )
    return finish(
        alt.vconcat(*charts, spacing=20), "Device data in caches, written back", "2 MiB last level."
    )


def _conflicts(data: Tb10Data) -> Any:
    """Draws the row conflicts of each class by write policy, the subject of Figures 18 and 19."""
    forms = [
        ("baseline", BASELINE),
        ("shared, back", Form(SHARED, write=BACK)),
        ("DDC 256K, back", ddc(256, write=BACK)),
        ("shared, through", Form(SHARED)),
        ("DDC 256K, through", ddc(256)),
    ]
    rows = [
        (workload, label, name, order, share)
        for workload in WORKLOADS
        for label, form in forms
        for order, (name, share) in enumerate(data.conflicts(workload, form).items())
    ]
    frame = pl.DataFrame(rows, schema=["workload", "form", "class", "order", "share"], orient="row")
    chart = (
        alt.Chart(frame)
        .mark_bar(size=18)
        .encode(
            y=alt.Y("form:N", sort=[label for label, _ in forms], title=None),
            x=alt.X("share:Q", title="lines that close another row, % of all lines in DRAM"),
            color=alt.Color(
                "class:N",
                sort=[*CLASSES],
                scale=alt.Scale(domain=[*BY_CLASS], range=[*BY_CLASS.values()]),
                legend=alt.Legend(title=None),
            ),
            order="order:Q",
            row=alt.Row("workload:N", sort=[*WORKLOADS], title=None),
        )
        .properties(width=460, height=130)
    )
    return finish(
        chart,
        "Figures 18 and 19: who causes row conflicts",
        "The document divides memory cycles. Here each class has its row conflicts.",
    )
