"""Judges claims by means with intervals, and by conditions that are true, false or open.

A condition is true or false if its interval decides it, and open if the interval lies on both sides of the
limit. A claim holds if all of its conditions are true, fails if one is false, and is undecided otherwise.
Placements (seeds) are the independent samples: values are compared placement by placement, with common random
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binhop.lazy_imports import stats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from binhop.reproduce.claims import Verdict


@dataclass(frozen=True)
class Measure:
    """`Measure` is a mean over samples, with Student's interval around it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends of the interval."""
        return (self.low, self.high)

    def text(self, digits: int = 3) -> str:
        """Returns mean and interval as prose writes them."""
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def measure(samples: ArrayLike, confidence: float) -> Measure:
    """Returns the mean of samples and its interval.

    >>> measure([1.0, 2.0, 3.0, 4.0], 0.9).text()  # t = 2.3534 on 3 degrees of freedom: KH90's
    '2.500 (0.981 to 4.019)'
    """
    values = np.asarray(samples, dtype=np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return Measure(mean, -np.inf, np.inf, len(values))
    half = float(
        stats.t.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    )
    return Measure(mean, mean - half, mean + half, len(values))


def ratios(above: ArrayLike, below: ArrayLike) -> NDArray[np.float64]:
    """Returns samples whose mean is mean(above) / mean(below), one sample for each placement.

    The ratio of two means has no samples of its own. The samples returned are those of its linearisation (the
    delta method), so that the ratios of several cells can be averaged placement by placement, with an
    interval.

    >>> [round(float(x), 6) for x in ratios([1.0, 3.0], [2.0, 2.0])]
    [0.5, 1.5]
    >>> ratios([0.0, 0.0], [2.0, 4.0]).tolist()
    [0.0, 0.0]
    """
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    ratio = a.mean() / b.mean()
    made: NDArray[np.float64] = ratio + (a - ratio * b) / b.mean()
    return made


@dataclass(frozen=True)
class Condition:
    """`Condition` is a condition of a claim: its words, and whether it is true, false or open (None)."""

    text: str
    truth: bool | None

    def __str__(self) -> str:
        return f"{self.text}: {'open' if self.truth is None else 'yes' if self.truth else 'no'}"


def positive(text: str, value: Measure, digits: int = 4) -> Condition:
    """Returns the condition that a mean is above zero."""
    truth = True if value.low > 0 else False if value.high < 0 else None
    return Condition(f"{text} ({value.text(digits)})", truth)


def less(text: str, small: ArrayLike, large: ArrayLike, confidence: float) -> Condition:
    """Returns the condition that a mean is below another, by the differences placement by placement."""
    difference = measure(np.asarray(large, np.float64) - np.asarray(small, np.float64), confidence)
    return positive(text, difference)


def within(text: str, value: Measure, low: float, high: float, digits: int = 3) -> Condition:
    """Returns the condition that a mean lies between two bounds."""
    inside = low <= value.low and value.high <= high
    outside = value.high < low or value.low > high
    truth = True if inside else False if outside else None
    return Condition(f"{text} ({value.text(digits)})", truth)


def like(text: str, one: Measure, other: Measure, share: float = 0.02) -> Condition:
    """Returns the condition that two means are within a share of each other, or their intervals overlap."""
    near = abs(one.mean - other.mean) <= share * min(one.mean, other.mean)
    overlap = one.low <= other.high and other.low <= one.high
    return Condition(f"{text} ({one.text()} and {other.text()})", near or overlap)


def counted(text: str, count: int, of: int, least: int) -> Condition:
    """Returns the condition that at least a given number of cells satisfy a claim."""
    return Condition(f"{text} in {count} of {of}, at least {least}", count >= least)


def verdict(conditions: Iterable[Condition]) -> Verdict:
    """Returns "holds" if all conditions are true, "fails" if one is false, and else "undecided"."""
    truths = [condition.truth for condition in conditions]
    if False in truths:
        return "fails"
    return "holds" if all(truths) and truths else "undecided"


def with_conditions(rule: str, conditions: Iterable[Condition]) -> str:
    """Returns the rule with the value of each condition."""
    return f"{rule} {'; '.join(str(condition) for condition in conditions)}."
