"""Draws JM97's Figure 8, the overhead by cause, and the last levels from which software wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.report.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, finish, save
from binhop.reproduce.jm97.designs import DESIGNS, HASHED, JM97, KEPT, KIB, MODERN, TABLE, X86, Organization
from binhop.reproduce.jm97.paper import EVENTS
from binhop.reproduce.jm97.programs import FIGURE_8
from binhop.reproduce.jm97.study import LEVELS_2, LINES, OF_LAST_LEVELS

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.reproduce.jm97.data import Jm97Data

WRITE_BACK = "write-back"
CAUSES = {**EVENTS, WRITE_BACK: "write-backs: handler and its waits"}
"""The causes of overhead, by the names of their metrics: the rows of Table 4, and write-backs."""
BY_CAUSE = dict(zip(CAUSES.values(), (BLUE, SKY, GREEN, YELLOW, ORANGE, PINK, BLACK, GREY), strict=True))
BY_DESIGN = {KEPT: BLUE, TABLE: SKY, JM97: ORANGE, X86: YELLOW, HASHED: PINK, MODERN: GREEN}
BY_LINE = dict(zip(LINES, (BLUE, GREEN, YELLOW, ORANGE), strict=True))
DASHES = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]


def draw(data: Jm97Data, directory: Path) -> list[Path]:
    """Draws every figure as PNG and SVG, and returns the files."""
    return [path for stem, chart in all_figures(data).items() for path in save(chart, directory, stem)]


def all_figures(data: Jm97Data) -> dict[str, Any]:
    """Returns every figure by the name of its file."""
    made = {}
    for letter, name in zip("ab", FIGURE_8, strict=True):
        program = data.program_of(name)
        if program in data.sweep:
            made[f"figure-8{letter}"] = _figure_8(data, program, letter)
    return {**made, "causes": _causes(data), "last-levels": _last_levels(data)}


def _sizes(kib: list[float]) -> Any:
    """Returns the axis of the sizes of caches, in KiB, one step for each doubling."""
    return alt.X(
        "size:Q",
        title=None,
        scale=alt.Scale(type="log", base=2, domain=[min(kib), max(kib)], nice=False),
        axis=alt.Axis(values=kib, grid=False, format="~d"),
    )


def _figure_8(data: Jm97Data, program: str, letter: str) -> Any:
    """Draws Figure 8: the overhead over level-1 sizes, a panel for each level-2 size and a line for lines."""
    rows = pl.DataFrame(
        [
            (
                caches.level_1 / KIB,
                caches.level_2 // KIB,
                _line(1, caches.line_1),
                _line(2, caches.line_2),
                value,
            )
            for caches, value in data.sweep[program].items()
        ],
        schema=["size", "level_2", "line_1", "line_2", "overhead"],
        orient="row",
    ).sort("size", maintain_order=True)
    sizes = rows["size"].unique().sort().to_list()
    panels = []
    for level_2 in (size // KIB for size in LEVELS_2):
        x = _sizes(sizes).title("level 1, KiB a side")
        chart = alt.Chart(rows.filter(level_2=level_2)).encode(
            x=x,
            y=alt.Y(
                "overhead:Q",
                title="overhead, cycles per instruction",
                scale=alt.Scale(domain=[0, 1.05 * max(rows["overhead"].to_list())], nice=False),
            ),
            color=alt.Color(
                "line_2:N",
                scale=alt.Scale(domain=[_line(2, line) for line in LINES], range=[*BY_LINE.values()]),
                legend=alt.Legend(title="lines", symbolType="stroke", symbolStrokeWidth=3),
            ),
        )
        dash = alt.StrokeDash(
            "line_1:N",
            scale=alt.Scale(domain=[_line(1, line) for line in LINES], range=DASHES),
            legend=alt.Legend(title=None, symbolType="stroke", symbolSize=400),
        )
        layers = chart.mark_line().encode(strokeDash=dash), chart.mark_point(size=18, filled=True, opacity=1)
        panels.append(
            alt.layer(*layers).properties(width=300, height=300, title=f"level 2: {level_2} KiB a side")
        )
    stands = data.stands_for[program]
    return finish(
        alt.hconcat(*panels, spacing=30),
        f"Figure 8{letter}: overhead against caches and lines ({program}, in the place of {stands})",
        "Software at cache misses; lines keep their translation, so write-backs cost nothing.",
    )


def _line(level: int, line: int) -> str:
    """Returns the name of a line; the legends of both levels stay apart because their names differ."""
    return f"level {level}: {line} bytes"


def _causes(data: Jm97Data) -> Any:
    """Draws the overhead of each program by cause, stacked."""
    rows = []
    for program in data.programs:
        for order, (cause, text) in enumerate(CAUSES.items()):
            value = float(data.samples([program], TABLE, f"translation.cycles.{cause}").mean())
            rows.append((program, text, order, value))
    frame = pl.DataFrame(rows, schema=["program", "cause", "order", "overhead"], orient="row")
    chart = (
        alt.Chart(frame)
        .mark_bar(height=22)
        .encode(
            y=alt.Y("program:N", title=None, sort=data.programs),
            x=alt.X("overhead:Q", title="overhead, cycles per instruction"),
            color=alt.Color(
                "cause:N",
                sort=[*BY_CAUSE],
                scale=alt.Scale(domain=[*BY_CAUSE], range=[*BY_CAUSE.values()]),
                legend=alt.Legend(title=None, labelLimit=400),
            ),
            order="order:Q",
        )
        .properties(width=520, height=34 * len(data.programs))
    )
    return finish(
        chart,
        "Overhead of software at cache misses, by cause",
        "The rows of Table 4, and write-backs that are translated by the table.",
    )


def _last_levels(data: Jm97Data) -> Any:
    """Draws the overhead of every design over sizes of the last level, a panel for each program."""
    rows = pl.DataFrame(
        [
            (program, design, size / KIB, data.overhead(program, design, OF_LAST_LEVELS, caches))
            for program in data.programs
            for size in data.last_levels
            for caches in [Organization(level_2=size)]
            for design in DESIGNS
        ],
        schema=["program", "design", "size", "overhead"],
        orient="row",
    )
    sizes = rows["size"].unique().sort().to_list()
    # A logarithmic axis cannot show an overhead of 0.
    shown = rows.filter(pl.col("overhead") > 0)
    values = shown["overhead"].to_list()
    panels = []
    for program in data.programs:
        chart = (
            alt.Chart(shown.filter(program=program))
            .mark_line(point=alt.OverlayMarkDef(size=22))
            .encode(
                x=_sizes(sizes).title("last level, KiB a side"),
                y=alt.Y(
                    "overhead:Q",
                    title="cycles per instruction",
                    scale=alt.Scale(type="log", domain=[min(values) / 1.2, 1.2 * max(values)], nice=False),
                    axis=alt.Axis(values=[10.0**power for power in range(-6, 3)], format="~g"),
                ),
                color=alt.Color(
                    "design:N",
                    sort=[*BY_DESIGN],
                    scale=alt.Scale(domain=[*BY_DESIGN], range=[*BY_DESIGN.values()]),
                    legend=alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3),
                ),
            )
        )
        stands = data.stands_for[program]
        panels.append(
            chart.properties(width=230, height=230, title=f"{program}{f' ({stands})' if stands else ''}")
        )
    return finish(
        alt.concat(*panels, columns=3, spacing=24),
        "Overhead against the size of the last level",
        "Level 1 of 8 KiB a side, lines of 16 bytes. Both axes are logarithmic.",
    )
