"""Summarises placements: the mean with Student's t interval, the quantiles, the extremes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binhop.arguments import share_of_one
from binhop.lazy_imports import pl
from binhop.student import student

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = ["workload", "machine", "phase", "metric", "unit"]
TOGETHER = "traces"
"""The workload under which compared traces are paired."""
_LEVEL_MISSES = re.compile(r"[^.]+\.misses")
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def as_one_workload(measured: pl.DataFrame, *, by_trace: bool) -> pl.DataFrame:
    """Returns the rows; rows of compared traces get the workload `traces`, so that they can be paired."""
    return measured.with_columns(workload=pl.lit(TOGETHER)) if by_trace else measured


def summarise(results: pl.DataFrame, confidence: float = 0.95, keys: list[str] = KEYS) -> pl.DataFrame:
    """Returns a row per workload, phase and metric of a tidy table. Other `keys` may tell rows apart.

    `low` and `high` bound the mean: Student's t on n-1 degrees of freedom; null for a single placement.
    `best_seed` has the smallest value, `worst_seed` the largest; among equals the first. Quantiles
    interpolate linearly.
    """
    check_confidence(confidence)
    value = pl.col("value")
    summary = results.group_by(keys, maintain_order=True).agg(
        n=value.count(),
        mean=value.mean(),
        deviation=value.std(ddof=1),
        min=value.min(),
        max=value.max(),
        best_seed=pl.col("seed").sort_by(value, nulls_last=True, maintain_order=True).first(),
        worst_seed=pl.col("seed").sort_by(-value, nulls_last=True, maintain_order=True).first(),
        **{name: value.quantile(q, interpolation="linear") for name, q in QUANTILES.items()},
    )
    t = {n: student(n, confidence) for n in summary["n"].unique()}
    half = pl.col("n").replace_strict(t, return_dtype=pl.Float64) * pl.col("deviation") / pl.col("n").sqrt()
    order = [
        *keys,
        "n",
        "mean",
        "low",
        "high",
        "confidence",
        "min",
        *QUANTILES,
        "max",
        "best_seed",
        "worst_seed",
    ]
    return summary.with_columns(
        low=pl.col("mean") - half, high=pl.col("mean") + half, confidence=pl.lit(confidence)
    ).select(order)


def demand_misses(results: pl.DataFrame, level: str) -> pl.DataFrame:
    """Returns a level's misses of fetches, loads and stores, summed, for each workload, phase and seed.

    For `memory`, these are the misses that reach it.
    """
    keys = ["workload", "phase", "seed"]
    return (
        _demand(results, level)
        .group_by(keys, maintain_order=True)
        .agg(misses=pl.col("value").sum().cast(pl.Int64))
    )


def with_misses(results: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Returns the rows, with rows of `<level>.misses` (a level's demand misses) if a metric asks for them."""
    levels = [name.removesuffix(".misses") for name in metrics if _LEVEL_MISSES.fullmatch(name)]
    parts = [results]
    for level in levels:
        keys = [name for name in results.columns if name not in ("metric", "unit", "value")]
        counts = _demand(results, level).group_by(keys, maintain_order=True).agg(pl.col("value").sum())
        named = counts.with_columns(metric=pl.lit(f"{level}.misses"), unit=pl.lit("misses"))
        parts.append(named.select(results.columns))
    return pl.concat(parts)


def _demand(results: pl.DataFrame, level: str) -> pl.DataFrame:
    """Returns the rows of a level's demand misses; for `memory`, of the misses that reach it."""
    what = "accesses" if level == "memory" else "misses"
    return results.filter(
        pl.col("metric").is_in([f"{level}.{kind}.{what}" for kind in ("fetch", "load", "store")])
    )


def check_confidence(confidence: float, place: str = "confidence") -> None:
    """Refuses a number that is no confidence."""
    share_of_one(confidence, place, "give 0.95, or 0.9 as KH90 does")
