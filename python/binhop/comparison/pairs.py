"""Pairs alternatives seed by seed, and summarises the differences.

One seed is one sequence of random draws, the same for every alternative: the list of frames starts in the
same order, and the same fault gets the same draw. The effect that the draws have on both alternatives cancels
in the difference. For all metrics less is better: an alternative beats the baseline under a seed if its value
is less.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.student import student

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

KEYS = ["workload", "metric", "unit", "alternative", "baseline"]


def pair(
    values: pl.DataFrame, metrics: Sequence[str], baseline: str, constant: Collection[str] = ()
) -> pl.DataFrame:
    """Returns every alternative's value beside the baseline's value for the same seed, and the difference.

    Args:
        values: One row for each workload, alternative, seed and metric.
        metrics: The metrics to compare, in this order.
        baseline: The alternative that the others are compared with.
        constant: The alternatives whose value is the same for every seed: each has one row, which is paired
            with every seed of the other alternatives.

    Returns:
        Columns workload, metric, unit, alternative, baseline, seed, value, baseline_value, difference
        (value - baseline_value). Where either is undefined, the difference is null.
    """
    names = values["alternative"].unique(maintain_order=True).to_list()
    chosen = values.filter(pl.col("metric").is_in(list(metrics)))
    base = chosen.filter(alternative=baseline).select(
        "workload", "metric", "unit", "seed", baseline_value="value"
    )
    parts = []
    for name in names:
        if name == baseline:
            continue
        own = chosen.filter(alternative=name).select("workload", "metric", "unit", "seed", "value")
        on = ["workload", "metric", "unit"]
        if name in constant:
            joined = base.join(own.drop("seed"), on=on)
        elif baseline in constant:
            joined = own.join(base.drop("seed"), on=on)
        else:
            joined = own.join(base, on=[*on, "seed"])
        parts.append(joined.with_columns(alternative=pl.lit(name), baseline=pl.lit(baseline)))
    order = pl.concat([part.select(*KEYS, "seed", "value", "baseline_value") for part in parts])
    places = {name: place for place, name in enumerate(metrics)}
    ranks = {name: place for place, name in enumerate(names)}
    works = {name: place for place, name in enumerate(values["workload"].unique(maintain_order=True))}
    return order.with_columns(difference=pl.col("value") - pl.col("baseline_value")).sort(
        pl.col("workload").replace_strict(works, return_dtype=pl.UInt32),
        pl.col("metric").replace_strict(places, return_dtype=pl.UInt32),
        pl.col("alternative").replace_strict(ranks, return_dtype=pl.UInt32),
        maintain_order=True,
    )


def summarise_pairs(
    differences: pl.DataFrame, confidence: float = 0.95, constant: Collection[str] = ()
) -> pl.DataFrame:
    """Returns one row for each workload, metric and alternative.

    - `mean`, `baseline_mean`, `difference`: means over the seeds; `low`, `high`: Student's t on the paired
      differences, n-1 degrees of freedom; `median`: the median of the differences.
    - `relative`: difference / baseline_mean; `reduction`: 1 - mean / baseline_mean, with an interval that
      takes both means as uncertain (Student's t on value - ratio * baseline_value, the ratio linearised).
    - `wins`, `ties`, `losses`: seeds in which the alternative has less, the same, more; `chance`: the share
      of wins, where a tie counts as half, with Wilson's interval.

    Intervals are null for a single seed. The interval of `chance` is also null where nothing is random.
    """
    value, base, difference = pl.col("value"), pl.col("baseline_value"), pl.col("difference")
    ratio = value.mean() / base.mean()
    seen = differences.drop_nulls("difference")
    summary = seen.group_by(KEYS, maintain_order=True).agg(
        n=difference.count(),
        mean=value.mean(),
        baseline_mean=base.mean(),
        difference=difference.mean(),
        median=difference.median(),
        deviation=difference.std(ddof=1),
        reduction=1 - ratio,
        scatter=(value - ratio * base).std(ddof=1) / base.mean().abs(),
        wins=(difference < 0).sum(),
        ties=(difference == 0).sum(),
        losses=(difference > 0).sum(),
    )
    n, root = pl.col("n"), pl.col("n").sqrt()
    t = n.replace_strict({k: student(k, confidence) for k in summary["n"].unique()}, return_dtype=pl.Float64)
    defined = pl.col("baseline_mean") != 0
    half, slack = t * pl.col("deviation") / root, t * pl.col("scatter") / root
    fixed = pl.col("alternative").is_in(list(constant)) & pl.col("baseline").is_in(list(constant))
    several = n > 1
    low, high = _wilson((pl.col("wins") + pl.col("ties") / 2) / n, n, confidence)
    return summary.select(
        *KEYS,
        "n",
        "mean",
        "baseline_mean",
        "difference",
        low=pl.col("difference") - half,
        high=pl.col("difference") + half,
        median="median",
        relative=pl.when(defined).then(pl.col("difference") / pl.col("baseline_mean")),
        reduction=pl.when(defined).then(pl.col("reduction")),
        reduction_low=pl.when(defined).then(pl.col("reduction") - slack),
        reduction_high=pl.when(defined).then(pl.col("reduction") + slack),
        chance=(pl.col("wins") + pl.col("ties") / 2) / n,
        chance_low=pl.when(several & ~fixed).then(low),
        chance_high=pl.when(several & ~fixed).then(high),
        wins="wins",
        ties="ties",
        losses="losses",
        confidence=pl.lit(confidence),
    )


def _wilson(share: pl.Expr, n: pl.Expr, confidence: float) -> tuple[pl.Expr, pl.Expr]:
    """Returns Wilson's score interval of a share of n, which lies between 0 and 1 for few seeds, too."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)).sqrt()
    return (middle - half).clip(0, 1), (middle + half).clip(0, 1)


__all__ = ["KEYS", "pair", "summarise_pairs"]
