"""Summarises placements: the mean with Student's t interval, the quantiles, the extremes.

`summary_of` summarises one metric, whether its values come from a Polars frame (`summarise`) or directly from
the extension (`points`). The terminal shows few numbers, and the import of Polars takes longer than a short
run, so the second way does without Polars.
"""

from __future__ import annotations

import re
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from binhop import _binhop
from binhop._binhop import Table
from binhop.arguments import share_of_one
from binhop.lazy_imports import pl
from binhop.student import student

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = ["workload", "machine", "phase", "metric", "unit"]
TOGETHER = "traces"
"""The workload under which compared traces are paired."""
_LEVEL_MISSES = r"[^.]+\.misses"
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


class Points(NamedTuple):
    """`Points` holds the values of one metric, one for each placement.

    Attributes:
        workload: The workload.
        machine: The machine's name.
        phase: `measured` or `warm-up`.
        metric: The metric.
        unit: The metric's unit.
        seeds: The numbers of the placements.
        values: The values, in the order of `seeds`; None where undefined.
    """

    workload: str
    machine: str
    phase: str
    metric: str
    unit: str
    seeds: list[int]
    values: list[float | None]


def points(results: Table | pl.DataFrame) -> list[Points]:
    """Returns the values of a tidy table by workload, phase and metric, in the order of the table."""
    if not isinstance(results, Table):
        values = results.group_by(KEYS, maintain_order=True).agg("seed", pl.col("value").cast(pl.Float64))
        return [Points(*row) for row in values.iter_rows()]
    columns = results.columns()
    found: dict[tuple[str, ...], Points] = {}
    keys = zip(*(columns[name] for name in KEYS), strict=True)
    for key, seed, value in zip(keys, columns["seed"], columns["value"], strict=True):
        of = found.get(key)
        if of is None:
            workload, machine, phase, metric, unit = key
            of = found[key] = Points(workload, machine, phase, metric, unit, [], [])
        of.seeds.append(seed)
        of.values.append(value)
    return [*found.values()]


def as_one_workload(measured: pl.DataFrame, *, by_trace: bool) -> pl.DataFrame:
    """Returns the rows; rows of compared traces get the workload `traces`, so that they can be paired."""
    return measured.with_columns(workload=pl.lit(TOGETHER)) if by_trace else measured


def summary_of(
    seeds: Sequence[int], values: Sequence[float | None], confidence: float = 0.95
) -> dict[str, Any]:
    """Returns the summary of one metric's values, one value for each seed.

    `low` and `high` bound the mean: Student's t on n-1 degrees of freedom; None for a single placement.
    `best_seed` has the smallest value, `worst_seed` the largest; among equals the first. Quantiles
    interpolate linearly.

    >>> summary_of([3, 4, 5], [2.0, None, 4.0])["mean"]
    3.0
    """
    found = _binhop.summarise(values, [*QUANTILES.values()])
    low = high = None
    if found.mean is not None and found.deviation is not None:
        t = student(found.n, confidence)
        assert t is not None, "there are several values"
        half = t * found.deviation / sqrt(found.n)
        low, high = found.mean - half, found.mean + half
    return {
        "n": found.n,
        "mean": found.mean,
        "low": low,
        "high": high,
        "confidence": confidence,
        "min": found.min,
        **dict(zip(QUANTILES, found.quantiles, strict=True)),
        "max": found.max,
        "best_seed": seeds[found.least],
        "worst_seed": seeds[found.greatest],
    }


def summarise(results: pl.DataFrame, confidence: float = 0.95, keys: list[str] = KEYS) -> pl.DataFrame:
    """Returns a row per workload, phase and metric of a tidy table. Other `keys` may tell rows apart.

    The other columns are the statistics of `summary_of`; undefined statistics are null.
    """
    check_confidence(confidence)
    of = results.group_by(keys, maintain_order=True).agg("seed", pl.col("value").cast(pl.Float64))
    rows = [summary_of(seeds, values, confidence) for seeds, values in of.select("seed", "value").iter_rows()]
    seed = results.schema["seed"]
    figures = ("mean", "low", "high", "confidence", "min", *QUANTILES, "max")
    schema: dict[str, Any] = {
        "n": pl.UInt32,
        **dict.fromkeys(figures, pl.Float64),
        "best_seed": seed,
        "worst_seed": seed,
    }
    return of.select(keys).hstack(pl.DataFrame(rows, schema=schema))


def with_misses(results: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Returns the rows, with rows of `<level>.misses` (a level's demand misses) if a metric asks for them."""
    levels = [name.removesuffix(".misses") for name in metrics if re.fullmatch(_LEVEL_MISSES, name)]
    parts = [results]
    for level in levels:
        keys = [name for name in results.columns if name not in ("metric", "unit", "value")]
        counted = results.filter(pl.col("metric").is_in(demand_misses(level)))
        counts = counted.group_by(keys, maintain_order=True).agg(pl.col("value").sum())
        named = counts.with_columns(metric=pl.lit(f"{level}.misses"), unit=pl.lit("misses"))
        parts.append(named.select(results.columns))
    return pl.concat(parts)


def demand_misses(level: str) -> list[str]:
    """Returns the metrics that count a level's demand misses; for `memory`, the misses that reach it.

    >>> demand_misses("memory")
    ['memory.fetch.accesses', 'memory.load.accesses', 'memory.store.accesses']
    """
    what = "accesses" if level == "memory" else "misses"
    return [f"{level}.{kind}.{what}" for kind in ("fetch", "load", "store")]


def check_confidence(confidence: float, place: str = "confidence") -> None:
    """Refuses a number that is no confidence."""
    share_of_one(confidence, place, "give 0.95, or 0.9 as KH90 does")
