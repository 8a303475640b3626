"""Compares a Monte Carlo estimate with a model's exact value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """`Estimate` is a mean over samples, with its standard error."""

    mean: float
    error: float


def agrees(exact: float, estimate: Estimate) -> bool:
    """Returns whether an estimate lies within 1% of the exact value, or within three standard errors.

    >>> agrees(100.0, Estimate(100.9, 0.1)), agrees(100.0, Estimate(101.1, 0.1))
    (True, False)
    """
    return abs(estimate.mean - exact) <= max(0.01 * abs(exact), 3 * estimate.error)
