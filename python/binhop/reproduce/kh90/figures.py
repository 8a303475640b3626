"""Draws Figures 3, 4, 10 to 13, and the figure of K12. Open marks show the paper's values."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop.lazy_imports import alt, pl
from binhop.models import conflicts
from binhop.models.conflicts import Cache
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, finish, save
from binhop.reproduce.judge import measure
from binhop.reproduce.kh90 import trend
from binhop.reproduce.kh90.data import MAIN, SIZES, WAYS, Kh90Data, Kh90Paper
from binhop.reproduce.kh90.rates import FRAMES, POOLS
from binhop.reproduce.kh90.spaces import CACHE, drawn, groups

if TYPE_CHECKING:
    from pathlib import Path

MISSES = "level-2 misses per 1000 instructions"
PAIR = {"random": ORANGE, "hierarchical": BLUE}
POOLED = {"random": ORANGE, "bin-hopping": PINK, "sequential": GREEN, "hierarchical": BLUE}


def draw(data: Kh90Data, directory: Path) -> list[Path]:
    """Draws every figure and returns the files."""
    made = []
    for stem, chart in all_figures(data).items():
        if chart is not None:
            made += save(chart, directory, stem)
    return made


def all_figures(data: Kh90Data) -> dict[str, Any]:
    """Returns every figure by the name of its file; None where the run has nothing to show."""
    paper = Kh90Paper()
    return {
        "figure-3": figure_3(),
        "figure-4": figure_4(),
        "figure-10": figure_10(data),
        "figure-11": figure_11(data, paper),
        "figure-12": figure_12(data),
        "figure-13": figure_13(data),
        "pools": pools(data, paper),
    }


def _colors(of: dict[str, str], **options: Any) -> Any:
    legend = alt.Legend(title=None, orient="top-left", symbolOpacity=1, labelFontSize=12, **options)
    return alt.Scale(domain=[*of], range=[*of.values()]), legend


def _pages(most: int) -> Any:
    axis = alt.Axis(values=[*range(0, most + 1, 32)], grid=False)
    return alt.X(
        "pages:Q", title="U, pages of the address space", scale=alt.Scale(domain=[0, most]), axis=axis
    )


def figure_3() -> Any:
    """Draws the conflicts of a random placement, and their bounds."""
    names = {"worst, C max": ORANGE, "random, C avg": BLACK, "best, C min": BLUE}
    rows = []
    for pages in range(257):
        values = (
            conflicts.maximum(pages, CACHE),
            conflicts.average(pages, CACHE),
            conflicts.minimum(pages, CACHE),
        )
        rows += [(pages, name, float(value)) for name, value in zip(names, values, strict=True)]
    table = pl.DataFrame(rows, schema=["pages", "curve", "value"], orient="row")
    scale, legend = _colors(names, symbolType="stroke", symbolStrokeWidth=3)
    y = alt.Y("value:Q", title="C, pages in conflict", axis=alt.Axis(tickCount=6))
    lines = (
        alt.Chart(table)
        .mark_line(strokeWidth=2)
        .encode(x=_pages(256), y=y, color=alt.Color("curve:N", scale=scale, legend=legend, sort=[*names]))
    )
    dots = _drawn(drawn().filter(ways=1), pl.col("mean"))
    chart = alt.layer(lines, dots).properties(width=560, height=300)
    return finish(
        chart,
        "Figure 3: conflicts of a random placement, and their bounds",
        "1 MiB direct-mapped (N = 64), 8192 frames. Circles: placements drawn (Monte Carlo).",
    )


def _drawn(table: pl.DataFrame, value: pl.Expr) -> Any:
    """Draws the means of the Monte Carlo as open circles."""
    dots = table.with_columns(value=value)
    return (
        alt.Chart(dots)
        .mark_point(size=55, color=BLACK, filled=False, strokeWidth=1.4, opacity=1)
        .encode(x="pages:Q", y="value:Q")
    )


def figure_4() -> Any:
    """Draws mapping conflicts by ways."""
    names = {"1 way": ORANGE, "2 ways": GREEN, "4 ways": BLUE}
    rows = [
        (pages, name, conflicts.mapping(pages, Cache.of("1MiB", ways)))
        for (name, ways), pages in product(zip(names, WAYS, strict=True), range(257))
    ]
    table = pl.DataFrame(rows, schema=["pages", "curve", "value"], orient="row")
    legend = alt.Legend(
        title=None,
        orient="top-right",
        symbolType="stroke",
        symbolStrokeWidth=3,
        labelFontSize=12,
        symbolOpacity=1,
    )
    scale = alt.Scale(domain=[*names], range=[*names.values()])
    y = alt.Y("value:Q", title="C avg − C min, pages", axis=alt.Axis(tickCount=6))
    lines = (
        alt.Chart(table)
        .mark_line(strokeWidth=2)
        .encode(x=_pages(256), y=y, color=alt.Color("curve:N", scale=scale, legend=legend, sort=[*names]))
    )
    least = (pl.col("pages") - CACHE.capacity).clip(lower_bound=0)
    size = CACHE.capacity
    most = conflicts.mapping(size, CACHE)
    said = f"U = N: {most:.2f} of {size} pages, {most / size:.1%} (§6 says 30%)"
    peak = pl.DataFrame({"pages": [size], "label": [said], "value": [most]})
    note = (
        alt.Chart(peak)
        .mark_text(align="left", dx=12, dy=-4, fontSize=11, color="#333333")
        .encode(x="pages:Q", y="value:Q", text="label:N")
    )
    chart = alt.layer(lines, _drawn(drawn(), pl.col("mean") - least), note).properties(width=560, height=300)
    return finish(
        chart,
        "Figure 4: conflicts that a careful placement could avoid",
        "1 MiB (N = 64), 8192 frames. Circles: placements drawn (Monte Carlo).",
    )


def figure_10(data: Kh90Data) -> Any:
    """Draws misses over time, one line for each placement."""
    table = data.frame("series", "over-time").filter(metric="l2.mpi").drop_nulls("value")
    if table.is_empty():
        return None
    table = table.sort("heuristic", "size", "seed", "interval").with_columns(
        at=pl.col("instructions").cum_sum().over("heuristic", "size", "seed") / 1e6,
        rate=1000 * pl.col("value"),
    )
    x = alt.X("at:Q", title="instructions executed, millions", axis=alt.Axis(grid=False, tickCount=10))
    scale, _ = _colors(PAIR)
    legend = alt.Legend(
        title=None,
        orient="bottom",
        symbolType="stroke",
        symbolStrokeWidth=3,
        labelFontSize=12,
        symbolOpacity=1,
    )
    panels = []
    for size in SIZES:
        of = table.filter(size=size).select("heuristic", "seed", "at", "rate")
        y = alt.Y("rate:Q", title=None, axis=alt.Axis(tickCount=5), scale=alt.Scale(zero=True))
        base = alt.Chart(of).encode(
            x=x if size == SIZES[-1] else alt.X("at:Q", title=None, axis=alt.Axis(grid=False, tickCount=10)),
            y=y,
            color=alt.Color("heuristic:N", scale=scale, legend=legend, sort=[*PAIR]),
            detail="seed:N",
        )
        random = base.transform_filter("datum.heuristic == 'random'").mark_line(
            strokeWidth=1.2, strokeDash=[3, 2], point=alt.OverlayMarkDef(size=10)
        )
        careful = base.transform_filter("datum.heuristic != 'random'").mark_line(
            strokeWidth=1.4, point=alt.OverlayMarkDef(size=10)
        )
        panels.append(alt.layer(random, careful).properties(width=720, height=150, title=_panel(size)))
    every = _interval(table)
    return finish(
        alt.vconcat(*panels, spacing=14),
        f"Figure 10: {MAIN} under {table['seed'].n_unique()} random and as many hierarchical placements",
        f"{MISSES.capitalize()}, every {every} instructions; direct-mapped; one line for each placement.",
    )


def _panel(size: str) -> str:
    return f"{size.replace('MiB', ' MiB')} direct-mapped"


def _interval(table: pl.DataFrame) -> str:
    return f"{round(max(table['instructions'].to_list()) / 1e6)} M"


def figure_11(data: Kh90Data, paper: Kh90Paper) -> Any:
    """Draws misses over ways, and over size."""
    rows = []
    for name, size, ways in product(PAIR, SIZES, WAYS):
        ours = measure(data.table(MAIN, name, size, ways), data.confidence)
        megabytes = int(size.removesuffix("MiB"))
        rows.append((name, megabytes, ways, ours.mean, paper.cell(MAIN, name, size, ways, "mean")))
    table = pl.DataFrame(rows, schema=["heuristic", "size", "ways", "ours", "paper"], orient="row")
    left = _against(table, "ways", "size", [1, 2, 4], "ways", "MiB")
    right = _against(table, "size", "ways", [1, 4, 16], "size, MiB", "way")
    return finish(
        alt.hconcat(left, right, spacing=30).resolve_scale(y="shared"),
        f"Figure 11: what ways, size and a careful placement buy ({MAIN})",
        [
            "Filled marks and lines: ours; open marks: the paper's. Dashed: with how many ways, with what "
            "size random",
            "placement would miss as seldom as hierarchical at 1 MiB direct-mapped (paper: 1.6; 1.7 MiB).",
        ],
    )


def _worth(table: pl.DataFrame, by: str) -> tuple[float, float | None]:
    """Returns hierarchical's misses at 1 MiB direct-mapped, and where along `by` random has equally few."""
    other = "size" if by == "ways" else "ways"
    along = table.filter(pl.col(other) == 1)
    careful = along.filter((pl.col("heuristic") == "hierarchical") & (pl.col(by) == 1))["ours"][0]
    random = along.filter(heuristic="random").select(by, "ours").rows()
    return float(careful), conflicts.equivalent(careful, dict(random))


def _dashed(table: pl.DataFrame, by: str, x: Any) -> list[Any]:
    """Returns the paper's dashed line: across to random's line, and down to the axis."""
    misses, at = _worth(table, by)
    if at is None:
        return []
    turns = pl.DataFrame({by: [1.0, at, at], "ours": [misses, misses, 0.0], "order": [0, 1, 2]})
    line = (
        alt.Chart(turns)
        .mark_line(color=GREY, strokeDash=[4, 3], strokeWidth=1.4)
        .encode(x=x, y="ours:Q", order="order:Q")
    )
    said = turns[2:].with_columns(label=pl.lit(f"{at:.1f}"))
    label = (
        alt.Chart(said)
        .mark_text(align="left", dx=4, dy=-8, fontSize=11, color="#333333")
        .encode(x=x, y="ours:Q", text="label:N")
    )
    return [line, label]


def _against(table: pl.DataFrame, by: str, other: str, at: list[int], title: str, unit: str) -> Any:
    """Draws one panel: a line for each value of the other parameter."""
    shown = table.with_columns(label=pl.format(f"{{}} {unit}", other))
    scale, _ = _colors(PAIR)
    legend = alt.Legend(title=None, orient="bottom", labelFontSize=12, symbolOpacity=1, symbolType="circle")
    x = alt.X(
        f"{by}:Q", title=title, scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=at, grid=False)
    )
    base = alt.Chart(shown).encode(
        x=x, color=alt.Color("heuristic:N", scale=scale, legend=legend, sort=[*PAIR]), detail="label:N"
    )
    y = alt.Y("ours:Q", title=MISSES, scale=alt.Scale(zero=True))
    lines = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=45, filled=True)).encode(y=y)
    theirs = base.mark_point(size=70, filled=False, strokeWidth=1.5, shape="diamond", opacity=1).encode(
        y="paper:Q"
    )
    # Names stand where the lines lie apart: at the right end over ways, at the left end over sizes.
    place = {"x": at[-1], "dx": 9, "dy": 0} if by == "ways" else {"x": at[0], "dx": 7, "dy": -7}
    named = shown.filter((pl.col(by) == place["x"]) & (pl.col("heuristic") == "random"))
    labels = (
        alt.Chart(named)
        .mark_text(align="left", dx=place["dx"], dy=place["dy"], fontSize=11, color="#333333")
        .encode(x=x, y="ours:Q", text="label:N")
    )
    return alt.layer(*_dashed(table, by, x), lines, theirs, labels).properties(width=330, height=300)


def figure_12(data: Kh90Data) -> Any:
    """Draws the conflicts in each address space against the model."""
    table = data.processes("conflicts")
    if table.is_empty():
        return None
    one = table.filter(pl.col("seed").eq(0) & pl.col("pages").le(256)).select("heuristic", "pages", "excess")
    curve = pl.DataFrame(
        {"pages": [*range(257)], "value": [conflicts.mapping(pages, CACHE) for pages in range(257)]}
    )
    scale, legend = _colors(PAIR)
    legend["orient"] = "top-right"
    y = alt.Y("excess:Q", title="C − C min, pages", axis=alt.Axis(tickCount=6))
    points = (
        alt.Chart(one)
        .mark_point(size=32, filled=True, opacity=0.65)
        .encode(
            x=_pages(256),
            y=y,
            color=alt.Color("heuristic:N", scale=scale, legend=legend, sort=[*PAIR]),
            shape=alt.Shape(
                "heuristic:N", scale=alt.Scale(domain=[*PAIR], range=["square", "triangle-up"]), legend=legend
            ),
        )
    )
    line = alt.Chart(curve).mark_line(color=BLACK, strokeWidth=1.4).encode(x="pages:Q", y="value:Q")
    layers = [line, points]
    grouped = groups(table.filter(heuristic="random")).filter(pl.col("pages") <= 256)
    if grouped.height:
        base = alt.Chart(grouped).encode(x="pages:Q")
        layers.append(base.mark_rule(color=BLACK, strokeWidth=2).encode(y="low:Q", y2="high:Q"))
        layers.append(base.mark_point(color=BLACK, filled=True, size=40, opacity=1).encode(y="mean:Q"))
    return finish(
        alt.layer(*layers).properties(width=640, height=320),
        f"Figure 12: conflicts in the address spaces of {MAIN}",
        [
            "1 MiB direct-mapped (N = 64); one mark for each process, placement 0. Line: the model (Figure "
            "4).",
            f"Black: random's mean over {table['seed'].n_unique()} placements in groups of like U, 95% "
            "interval (K3).",
        ],
    )


def figure_13(data: Kh90Data) -> Any:
    """Draws each process's misses against its conflicts."""
    table = trend.chosen(data)
    line = trend.plain(table, data.confidence)
    if line is None:
        return None
    one = table.filter(seed=0)
    ends = np.array([one["conflicts"].min(), one["conflicts"].max()])
    ruled = pl.DataFrame({"conflicts": ends, "mpi": line.start + line.slope.mean * ends})
    margin = alt.Scale(domain=[float(ends[0]) - 1, float(ends[1]) + 1], nice=False)
    across = alt.X(
        "conflicts:Q", title="C, pages in conflict", axis=alt.Axis(grid=False, tickMinStep=1), scale=margin
    )
    up = alt.Y("mpi:Q", title="the process's level-2 misses per 1000 instructions")
    points = alt.Chart(one).mark_square(size=36, color=ORANGE, opacity=0.8).encode(x=across, y=up)
    fit = alt.Chart(ruled).mark_line(color=BLACK, strokeWidth=1.6).encode(x="conflicts:Q", y="mpi:Q")
    said = [
        f"{one.height} processes of 0.5 to 1 MiB, 1 MiB direct-mapped, placement 0. Line: least squares, "
        f"slope {line.slope.text()}.",
    ]
    own = trend.within_processes(table, data.confidence)
    if own is not None:
        said.append(
            f"Within a process, from placement to placement (K9): slope {own.text()}, "
            f"{table['seed'].n_unique()} placements. {data.confidence:.0%} intervals."
        )
    return finish(
        alt.layer(points, fit).properties(width=560, height=300),
        f"Figure 13: misses against conflicts, {MAIN}, random placement",
        said,
    )


def pools(data: Kh90Data, paper: Kh90Paper) -> Any:
    """Draws misses over the size of the pool (K12)."""
    rows = []
    for name, pool in product(POOLED, POOLS):
        found = measure(data.samples(MAIN, name, "4MiB", 1, pool), data.confidence)
        theirs = paper("Table 3", MAIN, name, "4MiB", 1, "mean", pool)
        rows.append((name, FRAMES[pool], found.mean, *found.interval, theirs))
    schema = ["heuristic", "frames", "mean", "low", "high", "paper"]
    table = pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)
    scale = alt.Scale(domain=[*POOLED], range=[*POOLED.values()])
    legend = alt.Legend(title=None, orient="bottom", symbolType="circle", labelFontSize=12, symbolOpacity=1)
    x = alt.X(
        "frames:Q",
        title="K, frames to choose from (256: one for each bin)",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(values=[*FRAMES.values()], grid=False),
    )
    base = alt.Chart(table).encode(
        x=x, color=alt.Color("heuristic:N", scale=scale, legend=legend, sort=[*POOLED])
    )
    y = alt.Y("mean:Q", title=MISSES, scale=alt.Scale(zero=False))
    lines = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=45, filled=True)).encode(y=y)
    bars = base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(y="low:Q", y2="high:Q")
    theirs = (
        base.transform_filter("isValid(datum.paper)")
        .mark_point(size=70, filled=False, shape="diamond", strokeWidth=1.5, opacity=1)
        .encode(y="paper:Q")
    )
    knee = (
        alt.Chart(pl.DataFrame({"frames": [256]}))
        .mark_rule(color=GREY, strokeDash=[3, 3])
        .encode(x="frames:Q")
    )
    return finish(
        alt.layer(knee, bars, lines, theirs).properties(width=560, height=320),
        f"K12: how many frames a placement may choose from ({MAIN}, 4 MiB direct-mapped)",
        f"Filled: ours, with {data.confidence:.0%} intervals; open: the paper's Table 3.",
    )
