"""A Monte Carlo's estimate, and whether a model's exact value agrees with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean over samples, and its standard error."""

    mean: float
    error: float


def agrees(exact: float, estimate: Estimate) -> bool:
    """Whether an estimate lies within 1% or three standard errors of the exact value, whichever is larger.

    >>> agrees(100.0, Estimate(100.9, 0.1)), agrees(100.0, Estimate(101.1, 0.1))
    (True, False)
    """
    return abs(estimate.mean - exact) <= max(0.01 * abs(exact), 3 * estimate.error)
