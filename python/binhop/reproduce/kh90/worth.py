"""Judges what a careful placement is worth in ways, size and misses: Figure 11, K13 and K14."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from binhop.lazy_imports import stats
from binhop.models.conflicts import equivalent
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import Condition, less, measure, verdict, with_conditions
from binhop.reproduce.kh90.data import MAIN, SIZES, WAYS, Kh90Data

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABOUT = {"ways": (1.3, 1.9), "MiB": (1.4, 2.0)}
"""The bounds of the figures that are near the paper's 1.6 ways and 1.7 MiB: within 0.3."""
STEPS = 2048
"""The number of steps in which the measured range is searched: a step is less than 0.15% of ways or size."""


@dataclass(frozen=True)
class Worth:
    """`Worth` is the ways or size with which random placement would reach hierarchical's mean.

    Attributes:
        value: The value by linear interpolation in log2; None outside of the measurements.
        interval: The least and the largest value at which random's mean does not differ from hierarchical's,
            cut off where measurements end; None if there is no such value.
    """

    value: float | None
    interval: tuple[float, float] | None


def worth(careful: NDArray[np.float64], at: dict[int, NDArray[np.float64]], confidence: float) -> Worth:
    """Returns the equivalent ways or size, with an interval that avoids the distribution of a ratio.

    Random's mean at any x is a weighted sum of two measured means, so the difference hierarchical − random at
    x has one sample for each placement. The interval holds every x at which Student's interval of this
    difference contains 0 (Fieller's interval).
    """
    points = sorted(at)
    value = equivalent(float(careful.mean()), {x: float(samples.mean()) for x, samples in at.items()})
    first, last = (math.log2(points[end]) for end in (0, -1))
    tried = np.exp2(np.linspace(first, last, STEPS + 1))
    tried = np.sort(np.append(tried, [] if value is None else [value]))
    n = min(len(careful), *(len(samples) for samples in at.values()))
    random = np.array(
        [np.interp(np.log2(tried), np.log2(points), [at[x][i] for x in points]) for i in range(n)]
    )
    off = careful[:n, None] - random
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * off.std(axis=0, ddof=1) / np.sqrt(n)
    within_half = tried[np.abs(off.mean(axis=0)) <= half]
    return Worth(value, (float(within_half[0]), float(within_half[-1])) if len(within_half) else None)


def _about(name: str, found: Worth, measured: list[int]) -> Condition:
    """Returns the condition that all of the interval lies near the paper's figure."""
    low, high = ABOUT[name]
    worth = f"{found.value:.2f}" if found.value is not None else f"outside {measured[0]} to {measured[-1]}"
    if found.interval is None:
        return Condition(f"between {low} and {high} {name} ({worth}, all of its interval too)", False)
    least, most = found.interval
    inside = found.value is not None and low <= least and most <= high
    apart = most < low or least > high
    return Condition(
        f"between {low} and {high} {name} ({worth}, {least:.2f} to {most:.2f})",
        True if inside else False if apart else None,
    )


def k13(data: Kh90Data) -> Claim:
    """Judges what hierarchical is worth."""
    careful = data.samples(MAIN, "hierarchical", "1MiB", 1)
    by = {
        "ways": {ways: data.samples(MAIN, "random", "1MiB", ways) for ways in WAYS},
        "MiB": {int(size.removesuffix("MiB")): data.samples(MAIN, "random", size, 1) for size in SIZES},
    }
    found = {name: worth(careful, at, data.confidence) for name, at in by.items()}
    conditions = [_about(name, one, sorted(by[name])) for name, one in found.items()]
    return Claim(
        "K13",
        "Hierarchical at 1 MiB direct-mapped is worth about 1.6 ways or 1.7 MiB (mult2.2).",
        {name: one.value for name, one in found.items()},
        {name: one.interval for name, one in found.items() if one.interval is not None},
        verdict(conditions),
        with_conditions(
            "Where random placement would reach hierarchical's mean, linearly in log2 of ways and of size "
            f"(Figure 11); {len(careful)} placements. The interval holds the ways or sizes at which random's "
            "mean, so interpolated, cannot be told from hierarchical's by Student's interval of their "
            "difference. About: within 0.3. Yes if all of the interval is, no if none of it is; an interval "
            "outside of what was measured is not.",
            conditions,
        ),
    )


def k14(data: Kh90Data) -> Claim:
    """Judges the absolute gain by size."""
    gains = {
        size: data.samples(MAIN, "random", size, 1) - data.samples(MAIN, "hierarchical", size, 1)
        for size in SIZES
    }
    conditions = [
        less(f"the gain at {large} is below that at {small}, by", gains[large], gains[small], data.confidence)
        for small, large in pairwise(SIZES)
    ]
    found = {size: measure(samples, data.confidence) for size, samples in gains.items()}
    return Claim(
        "K14",
        "The absolute gain falls as the cache grows (Figure 11: mult2.2, direct-mapped).",
        {size: value.mean for size, value in found.items()},
        {size: value.interval for size, value in found.items()},
        verdict(conditions),
        with_conditions(
            "Misses per 1000 instructions that hierarchical saves, placement by placement. Of mult2.2 alone, "
            "as in Figure 11.",
            conditions,
        ),
    )


ALL = (k13, k14)
