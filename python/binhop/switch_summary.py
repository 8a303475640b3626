"""Sums up what switches cost one workload: every figure with its interval, the curves, the costliest code.

`binhop.switch_cost` says how everything is counted.
"""

from __future__ import annotations

from binhop.lazy_imports import pl
from binhop.switch_cost import (
    CONFIDENCE,
    by_cause,
    costs_by,
    costs_by_cache,
    costs_by_level,
    estimates,
    interval_length,
    intervals,
    overheads,
    share_of_positive,
)

UNITS = {
    "switches": "switches",
    "short": "switches",
    "truncated": "switches",
    "same": "switches",
    "lives": "processes",
    "instructions": "instructions",
    "length": "instructions/switch",
    "cycles": "cycles",
    "excess": "cycles",
    "exact": "cycles/switch",
    "returning": "cycles/switch",
    "document": "cycles/switch",
    "per_process": "cycles/switch",
    "per_process_document": "cycles/switch",
    "overhead": "cycles/cycle",
    "overhead_returning": "cycles/cycle",
    "overhead_document": "cycles/cycle",
    "interval": "instructions",
    "cut": "instructions",
    "cost": "cycles/switch",
    "share": "cycles/cycle",
    "shared": "misses",
    "private": "misses",
    "extra": "misses/switch",
    "replaced": "misses/switch",
    "reordered": "misses/switch",
    "held": "lines/switch",
    "lost": "lines/line",
    "restored": "lines/line",
}
"""The metrics of a summary, and their units."""
GROUPS = ("cause", "syscall", "asid", "life", "level", "kind")
"""The columns that tell the rows of a summary apart, beside its group."""


def summary(costs: pl.DataFrame, curves: pl.DataFrame, confidence: float = CONFIDENCE) -> pl.DataFrame:
    """Returns every figure of one workload; every figure but a share has its interval over placements.

    Columns: workload, machine, group (`all`, `cause`, `call`, `process`, `level` or `cache`), the columns of
    `GROUPS` (null where the group has none of it; the group `cache` has the cache as its level), metric,
    unit, n, mean, low, high, confidence. Causes, calls and processes come in the order of their excess.

    A share is of the excess of all placements together, and has no interval: the mean of the placements' own
    shares would let a placement with almost no excess count as much as every other.
    """
    of_switches = ["switches", "length", "excess", "cost", "share"]
    whole = overheads(costs, curves)
    parts = [
        ("all", whole, [name for name in UNITS if name in whole.columns], []),
        ("cause", costs_by(costs, "cause"), of_switches, ["cause"]),
        ("call", costs_by(costs, "cause", "syscall"), of_switches, ["cause", "syscall"]),
        ("process", costs_by(costs, "asid", "life"), of_switches, ["asid", "life"]),
        ("level", costs_by_level(costs), ["excess", "cost", "share"], ["level", "kind"]),
        (
            "cache",
            costs_by_cache(costs).rename({"cache": "level"}),
            ["shared", "private", "extra", "replaced", "reordered", "held", "lost", "restored"],
            ["level"],
        ),
    ]
    types = {"asid": pl.UInt32, "life": pl.UInt32, "syscall": pl.UInt64}
    rows = [
        _by_excess(_shares(estimates(frame, columns, by, confidence), by), group, by).with_columns(
            pl.lit(group).alias("group"),
            *(pl.lit(None, types.get(name, pl.String)).alias(name) for name in GROUPS if name not in by),
        )
        for group, frame, columns, by in parts
        if not frame.is_empty()
    ]
    order = ["workload", "machine", "group", *GROUPS, "metric", "unit", "n", "mean", "low", "high"]
    # Shares of calls are of all excess, so the rest without a call is left out only here.
    rest = (pl.col("group") == "call") & pl.col("syscall").is_null()
    return (
        pl.concat([each.select(sorted(each.columns)) for each in rows])
        .filter(~rest)
        .with_columns(unit=pl.col("metric").replace_strict(UNITS, return_dtype=pl.String))
        .select(*order, pl.lit(confidence).alias("confidence"))
    )


def _shares(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Returns the rows with shares of the excess of all placements together, where they have shares."""
    is_share = pl.col("metric") == "share"
    if rows.filter(is_share).is_empty():
        return rows
    of_excess = rows.filter(metric="excess").select(
        *by, share=share_of_positive(_whole_excess(), ()), placements="n"
    )
    return (
        rows.join(of_excess, on=by, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            n=pl.when(is_share).then("placements").otherwise("n"),
            mean=pl.when(is_share).then("share").otherwise("mean"),
            low=pl.when(~is_share).then("low"),
            high=pl.when(~is_share).then("high"),
        )
        .drop("share", "placements")
    )


def _by_excess(rows: pl.DataFrame, group: str, by: list[str]) -> pl.DataFrame:
    """Returns the rows of causes, calls and processes in the order of their excess under all placements."""
    if group not in ("cause", "call", "process"):
        return rows
    excess = _whole_excess().filter(pl.col("metric") == "excess").first().over(by)
    return rows.sort(excess, descending=True, maintain_order=True)


def _whole_excess() -> pl.Expr:
    """Returns the excess under all placements together, of a row of the metric `excess`."""
    return pl.col("mean") * pl.col("n")


def costliest_pages(pages: pl.DataFrame, most: int) -> pl.DataFrame:
    """Returns the code pages with the most excess cycles soon after a switch, for each workload.

    Columns: workload, machine, segment, asid, page (an address), cause, fetches, excess (means over
    placements; a placement without the page counts as 0), and share (of the excess of the pages above zero).
    """
    keys = ["workload", "machine"]
    seeds = pages.group_by(keys).agg(seeds=pl.col("seed").n_unique())
    excess = pl.col("cycles_shared").cast(pl.Int64).sum() - pl.col("cycles_private").cast(pl.Int64).sum()
    place = [*keys, "segment", "asid", "page", "cause"]
    return (
        pages.group_by(place, maintain_order=True)
        .agg(fetches=pl.col("fetches").sum(), excess=excess)
        .join(seeds, on=keys, how="left", maintain_order="left")
        .with_columns(share=share_of_positive(pl.col("excess"), keys))
        .with_columns(pl.col("fetches", "excess") / pl.col("seeds"))
        .drop("seeds")
        .sort("excess", descending=True, maintain_order=True)
        .group_by(keys, maintain_order=True)
        .head(most)
    )


def mean_curves(curves: pl.DataFrame, confidence: float = CONFIDENCE) -> pl.DataFrame:
    """Returns the curves over all lives, of each cause and of all (null), as means over placements.

    One workload; intervals of the length that fits it. Columns: workload, machine, cause, since, alive,
    cpi_shared, cpi_private, excess with low and high, cumulative.
    """
    means = intervals(by_cause(curves).filter(interval=interval_length(curves)))
    columns = ["alive", "cpi_shared", "cpi_private", "excess", "cumulative"]
    found = estimates(means, columns, ["cause", "since"], confidence)
    keys = ["workload", "machine", "cause", "since"]
    limits = found.filter(metric="excess").select(*keys, "low", "high")
    wide = found.group_by(keys, maintain_order=True).agg(
        pl.col("mean").filter(pl.col("metric") == name).first().alias(name) for name in columns
    )
    return wide.join(limits, on=keys, how="left", nulls_equal=True, maintain_order="left")
