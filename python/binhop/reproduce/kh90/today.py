"""Measures how much placement changes misses on today's machines, and which policy removes the change.

Between two runs of a cell only the placement differs: the study gives these machines LRU throughout. The
coefficient of variation of misses over placements therefore measures only luck of placement: its share of the
variation is 100% by construction. The study does not ask what random replacement, other programs and the like
would add to the variation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import alt, pl
from binhop.report.style import BLUE, GREY, ORANGE, finish
from binhop.reproduce.kh90.tables import percent
from binhop.reproduce.markdown import grid

if TYPE_CHECKING:
    from binhop.reproduce.kh90.data import Kh90Data


@dataclass(frozen=True)
class Level:
    """`Level` is a cache of a part's machine, with its name on the page."""

    part: str
    cache: str
    title: str
    hashed: str | None = None


LEVELS = (
    Level("today-zen-4k", "l3", "zen-4k (4 KiB pages), last level: 16 MiB, 16-way"),
    Level("today-apple-m1", "l2", "apple-m1 (16 KiB pages), last level: 12 MiB, 12-way"),
    Level("today-skylake", "l3", "skylake (4 KiB pages), last level: 8 MiB, 16-way, hashed index", "true"),
    Level("today-skylake", "l3", "skylake, last level, were its index not hashed", "false"),
    Level("today-zen-4k", "l2", "zen-4k, level 2: 1 MiB, 16-way"),
    Level("today-skylake", "l2", "skylake, level 2: 256 KiB, 4-way", "true"),
)
"""The levels on the page: last levels first, then the private second levels, whose sets depend on the frame
as well."""
BASE = "random"
LEAST = 1e-4
"""The smallest variation that counts: a hundredth of a per cent."""


def samples(data: Kh90Data) -> pl.DataFrame:
    """Returns misses per 1000 instructions: level, workload, policy, seed, rate."""
    frames = []
    for level in LEVELS:
        rows = data.frame("results", level.part).filter(metric=f"{level.cache}.mpi")
        if level.hashed is not None:
            rows = rows.filter(pl.col("cache.l3.hash") == level.hashed)
        frames.append(
            rows.select("workload", "policy", "seed", level=pl.lit(level.title), rate=1000 * pl.col("value"))
        )
    return pl.concat(frames)


def variation(data: Kh90Data) -> pl.DataFrame:
    """Returns mean, variation (deviation / mean) and relative mean by level, workload and policy."""
    keys = ["level", "workload", "policy"]
    table = (
        samples(data)
        .group_by(keys, maintain_order=True)
        .agg(n=pl.len(), mean=pl.col("rate").mean(), deviation=pl.col("rate").std(ddof=1))
        .with_columns(variation=pl.when(pl.col("mean") > 0).then(pl.col("deviation") / pl.col("mean")))
    )
    base = table.filter(policy=BASE).select("level", "workload", base="mean")
    joined = table.join(base, on=["level", "workload"], how="left", maintain_order="left")
    return joined.with_columns(relative=pl.col("mean") / pl.col("base")).drop("base", "deviation")


def _ran(data: Kh90Data, table: pl.DataFrame) -> str:
    """Returns how much was simulated on all machines: references of a workload, and placements."""
    parts = dict.fromkeys(level.part for level in LEVELS)
    lengths = [data.frame("results", part).filter(metric="references")["value"] for part in parts]
    ends = (of(of(values.to_list()) for values in lengths) for of in (min, max))
    read = " to ".join(dict.fromkeys(f"{count / 1e6:,.4g} M" for count in ends))
    counts = sorted({*table["n"].to_list()})
    return f"{read} references of each workload, {' or '.join(map(str, counts))} placements of each cell"


def section(data: Kh90Data, table: pl.DataFrame) -> str:
    """Returns the page's section: the question, the machines, the figure, a table for each machine."""
    parts = [
        "## Today's machines\n",
        "By how much do the misses of two runs of a program differ because of placement alone, and which "
        f"policy removes this difference? The study simulates {_ran(data, table)}.\n\n"
        "It does not measure *which share* of the difference between two runs comes from placement. All "
        "caches replace by LRU and the program is the same, so only the placement differs, and its share is "
        "100% by construction. The study measures how large the difference is.\n\n"
        f"{_said(table)}\n",
        "![Misses of each placement, relative to random's mean](today.png)\n",
        "Coefficient of variation of misses over placements; in brackets the mean, relative to random's.\n",
    ]
    workloads = table["workload"].unique(maintain_order=True).to_list()
    for (level,), of in table.group_by("level", maintain_order=True):
        rows = []
        for (policy,), cells in of.group_by("policy", maintain_order=True):
            values = {row["workload"]: row for row in cells.iter_rows(named=True)}
            rows.append([str(policy), *(_cell(values[name]) for name in workloads)])
        parts.append(f"### {level}\n\n{grid(['policy', *workloads], rows)}")
    return "\n".join(parts)


def _cell(row: dict[str, Any]) -> str:
    if row["variation"] is None or row["relative"] is None:
        return "-"
    return f"{percent(row['variation'], 2)} ({row['relative'] - 1:+.1%})"


def _said(table: pl.DataFrame) -> str:
    """Returns the findings of the table in words, level by level."""
    sentences = []
    for (level,), of in table.group_by("level", maintain_order=True):
        random = of.filter((pl.col("policy") == BASE) & (pl.col("variation") >= LEAST))
        if random.is_empty():
            sentences.append(f"*{level}*: under random placement no workload's misses vary.")
            continue
        worst = random.sort("variation").row(-1, named=True)
        others = of.filter(~pl.col("policy").is_in([BASE, "buddy-fresh"]))
        left = (
            others.join(random.select("workload"), on="workload", maintain_order="left")
            .group_by("policy", maintain_order=True)
            .agg(pl.col("variation").sum(), pl.col("relative").mean())
            .sort("variation", maintain_order=True)
            .row(0, named=True)
        )
        share = left["variation"] / sum(random["variation"].to_list())
        sentences.append(
            f"*{level}*: under random placement misses vary by up to {percent(worst['variation'], 2)} "
            f"({worst['workload']}); {left['policy']} leaves {percent(share)} of the variation, "
            f"the least of all policies, at {left['relative'] - 1:+.1%} misses."
        )
    sentences.append(
        "A buddy allocator on a fresh system (buddy-fresh) starts from the same free lists every time, so "
        "its misses do not vary. Its mean shows whether the placement that it always gives is good or bad."
    )
    return "\n\n".join(sentences)


def figure(data: Kh90Data) -> Any:
    """Draws a mark for each placement: machines down, workloads across, policies on rows of a panel."""
    table = samples(data)
    base = table.filter(policy=BASE).group_by("level", "workload").agg(base=pl.col("rate").mean())
    table = table.join(base, on=["level", "workload"], maintain_order="left").with_columns(
        relative=100 * (pl.col("rate") / pl.col("base") - 1)
    )
    policies = table["policy"].unique(maintain_order=True).to_list()
    workloads = table["workload"].unique(maintain_order=True).to_list()
    rows = []
    for (level,), of in table.group_by("level", maintain_order=True):
        panels = [
            _panel(of.filter(workload=workload), policies, workload, workload == workloads[0])
            for workload in workloads
        ]
        heading = alt.TitleParams(str(level), anchor="start", fontSize=12, fontWeight="bold", offset=4)
        rows.append(alt.hconcat(*panels, spacing=14, title=heading))
    return finish(
        alt.vconcat(*rows, spacing=22),
        "Placement luck on today's machines",
        [
            "Misses under each placement, against random's mean, in per cent; one mark for each placement.",
            "Black: the mean. Nothing differs between the marks of a row but the placement.",
        ],
    )


def _panel(of: pl.DataFrame, policies: list[str], title: str, first: bool) -> Any:
    y = alt.Y(
        "policy:N",
        sort=policies,
        title=None,
        axis=alt.Axis(labels=first, ticks=False, domain=False, grid=True, labelLimit=200),
    )
    x = alt.X("relative:Q", title=None, axis=alt.Axis(tickCount=4, grid=False), scale=alt.Scale(zero=True))
    shown = of.select("policy", "relative")
    color = alt.condition(f"datum.policy == '{BASE}'", alt.value(ORANGE), alt.value(BLUE))
    marks = alt.Chart(shown).mark_tick(thickness=1.2, height=9, opacity=0.7).encode(x=x, y=y, color=color)
    means = shown.group_by("policy", maintain_order=True).agg(pl.col("relative").mean())
    dots = alt.Chart(means).mark_point(filled=True, size=26, color="#000000", opacity=1).encode(x=x, y=y)
    zero = alt.Chart(pl.DataFrame({"relative": [0.0]})).mark_rule(color=GREY, strokeDash=[2, 2]).encode(x=x)
    heading = alt.TitleParams(title, anchor="start", fontSize=11)
    return alt.layer(zero, marks, dots).properties(width=150, height=112, title=heading)
