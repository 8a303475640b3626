"""Beyond the document: placement luck on today's machines, and which policy removes it.

Between two runs of a cell only the placement differs (replacement is LRU): the coefficient of variation of
the last level's misses over placements is placement luck and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from binhop.report.style import BLUE, GREY, ORANGE, finish
from binhop.reproduce.kh90.tables import grid, percent

if TYPE_CHECKING:
    from binhop.reproduce.kh90.data import Data

PARTS = {"today-zen-4k": "l3", "today-apple-m1": "l2", "today-skylake": "l3"}
"""The parts, and the last level of each one's machine."""
NAMES = {
    "today-zen-4k": "zen-4k: 4 KiB pages, 16 MiB",
    "today-apple-m1": "apple-m1: 16 KiB pages, 12 MiB",
    "today-skylake true": "skylake: 4 KiB pages, 8 MiB, hashed index",
    "today-skylake false": "skylake, index not hashed",
}
BASE = "random"


def samples(data: Data) -> pl.DataFrame:
    """Misses per 1000 instructions at the last level: machine, workload, policy, seed, rate."""
    frames = []
    for part, cache in PARTS.items():
        rows = data.frame("results", part).filter(metric=f"{cache}.mpi")
        hashed = rows["cache.l3.hash"] if part == "today-skylake" else None
        name = pl.lit(part) if hashed is None else pl.format("{} {}", pl.lit(part), hashed)
        frames.append(
            rows.with_columns(machine=name.replace_strict(NAMES, return_dtype=pl.String)).select(
                "machine", "workload", "policy", "seed", rate=1000 * pl.col("value")
            )
        )
    return pl.concat(frames)


def luck(data: Data) -> pl.DataFrame:
    """Per machine, workload and policy: mean, variation (deviation / mean), relative (mean over random's)."""
    keys = ["machine", "workload", "policy"]
    table = (
        samples(data)
        .group_by(keys, maintain_order=True)
        .agg(n=pl.len(), mean=pl.col("rate").mean(), deviation=pl.col("rate").std(ddof=1))
        .with_columns(variation=pl.when(pl.col("mean") > 0).then(pl.col("deviation") / pl.col("mean")))
    )
    base = table.filter(policy=BASE).select("machine", "workload", base="mean")
    joined = table.join(base, on=["machine", "workload"], how="left", maintain_order="left")
    return joined.with_columns(relative=pl.col("mean") / pl.col("base")).drop("base", "deviation")


def section(table: pl.DataFrame) -> str:
    """The page's section: a paragraph, the figure, a table for each machine."""
    parts = [
        "## Today's machines\n",
        "How much of a run-to-run difference is placement luck, and which policy removes it? Nothing differs "
        f"between two runs but the placement ({max(table['n'].to_list())} of each). {_said(table)}\n",
        "![Last-level misses of each placement, relative to random's mean](today.png)\n",
        "Coefficient of variation of last-level misses over placements; in brackets the mean, relative to "
        "random's.\n",
    ]
    workloads = table["workload"].unique(maintain_order=True).to_list()
    for (machine,), of in table.group_by("machine", maintain_order=True):
        rows = []
        for (policy,), cells in of.group_by("policy", maintain_order=True):
            values = {row["workload"]: row for row in cells.iter_rows(named=True)}
            rows.append([str(policy), *(_cell(values[name]) for name in workloads)])
        parts.append(f"### {machine}\n\n{grid(['policy', *workloads], rows)}")
    return "\n".join(parts)


def _cell(row: dict[str, Any]) -> str:
    if row["variation"] is None or row["relative"] is None:
        return "-"
    return f"{percent(row['variation'], 2)} ({row['relative'] - 1:+.1%})"


def _said(table: pl.DataFrame) -> str:
    """What the table says, machine by machine."""
    sentences = []
    for (machine,), of in table.group_by("machine", maintain_order=True):
        random = of.filter(policy=BASE).drop_nulls("variation")
        if random.is_empty():
            continue
        low, high = min(random["variation"].to_list()), max(random["variation"].to_list())
        worst = random.sort("variation").row(-1, named=True)["workload"]
        others = of.filter((pl.col("policy") != BASE) & (pl.col("policy") != "buddy-fresh"))
        best = (
            others.join(random.select("workload", base="variation"), on="workload")
            .with_columns(left=pl.col("variation") / pl.col("base"))
            .group_by("policy", maintain_order=True)
            .agg(left=pl.col("left").median(), relative=pl.col("relative").median())
            .sort("left", maintain_order=True)
            .row(0, named=True)
        )
        sentences.append(
            f"On {machine}, random placement makes misses vary by {percent(low, 2)} to {percent(high, 2)} "
            f"(most: {worst}); "
            f"{best['policy']} leaves least of it, {percent(best['left'])} in the median of workloads, at "
            f"{best['relative'] - 1:+.1%} misses."
        )
    sentences.append(
        "A buddy allocator on a fresh system (buddy-fresh) starts from the same free lists every time, so "
        "it has no luck "
        "at all: whether what it always gives is good or bad is in its mean."
    )
    return " ".join(sentences)


def figure(data: Data) -> Any:
    """Every placement a mark: machines down, workloads across, policies on the rows of each panel."""
    table = samples(data)
    base = table.filter(policy=BASE).group_by("machine", "workload").agg(base=pl.col("rate").mean())
    table = table.join(base, on=["machine", "workload"], maintain_order="left").with_columns(
        relative=100 * (pl.col("rate") / pl.col("base") - 1)
    )
    policies = table["policy"].unique(maintain_order=True).to_list()
    workloads = table["workload"].unique(maintain_order=True).to_list()
    rows = []
    for (machine,), of in table.group_by("machine", maintain_order=True):
        panels = [
            _panel(
                of.filter(workload=workload), policies, f"{machine}: {workload}" if first else workload, first
            )
            for workload in workloads
            for first in [workload == workloads[0]]
        ]
        rows.append(alt.hconcat(*panels, spacing=14))
    return finish(
        alt.vconcat(*rows, spacing=22),
        "Placement luck on today's machines",
        [
            "Last-level misses under each placement, against random's mean, in per cent; one mark for each "
            "placement.",
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
