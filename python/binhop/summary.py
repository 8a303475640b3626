"""Statistics over placements: the mean with Student's t interval, the quantiles, the extremes."""

from __future__ import annotations

from binhop.errors import RequestError
from binhop.lazily import load, pl

KEYS = ["workload", "machine", "phase", "metric", "unit"]
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def summarise(results: pl.DataFrame, confidence: float = 0.95, keys: list[str] = KEYS) -> pl.DataFrame:
    """One row per workload, phase and metric of a tidy table; `keys` are other columns that tell rows apart.

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


def demand_misses(results: pl.DataFrame, cache: str) -> pl.DataFrame:
    """Misses of fetches, loads and stores at one cache, summed: one row per workload, phase and seed."""
    names = [f"{cache}.{kind}.misses" for kind in ("fetch", "load", "store")]
    keys = ["workload", "phase", "seed"]
    return (
        results.filter(pl.col("metric").is_in(names))
        .group_by(keys, maintain_order=True)
        .agg(misses=pl.col("value").sum().cast(pl.Int64))
    )


def check_confidence(confidence: float, place: str = "confidence") -> None:
    """Refuses what is no confidence."""
    if not 0 < confidence < 1:
        rule = "a confidence lies between 0 and 1"
        raise RequestError(str(confidence), place, rule, "give 0.95, or 0.9 as KH90 does")


def student(n: int, confidence: float) -> float | None:
    """How many standard errors the interval of a mean of n values reaches to each side; None for one."""
    if n < 2:
        return None
    return float(load("scipy.stats").t.ppf((1 + confidence) / 2, n - 1))
