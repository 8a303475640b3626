"""Describes how values lie over the placements: all equal, in two groups, or with outliers.

A mean with an interval describes values that lie around it. It misleads where some placements behave
differently. A reader wants to look at these placements, so their seeds are named.

- *Equal*: there are two placements or more, and their values are all the same.
- *Two groups*: the largest gap between neighbouring values is over half the range, and each side of the gap
  has at least 10% of the placements and at least two.
- *Outliers*: values more than 3 interquartile ranges below the lower quartile or above the upper quartile.
  Quartiles interpolate linearly between neighbours, as in the summary (Hyndman and Fan's type 7). Where the
  quartiles are equal, every other value is an outlier. The smaller of two groups is not named twice.

Groups and outliers are looked for among eight placements or more. Among fewer placements, chance alone makes
groups and outliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop.numbers import counted, figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FEWEST = 8
"""The fewest placements among which groups and outliers are looked for."""
SIDE = 10
"""The smallest share of the placements in each of two groups, in percent."""
FENCE = 3
"""The smallest distance of an outlier from the quartiles, in interquartile ranges."""
NAMED = 8
"""The most seeds that a note names before it counts the other seeds."""

Point = tuple[int, float]
"""A seed and its value."""


@dataclass(frozen=True)
class Spread:
    """`Spread` describes values over the placements. Points are sorted by value, then by seed.

    Attributes:
        equal: Whether all values are the same, of two placements or more.
        groups: The lower and the upper group, if there are two.
        outliers: The outliers, without those of the smaller group.
    """

    equal: bool
    groups: tuple[tuple[Point, ...], tuple[Point, ...]] | None
    outliers: tuple[Point, ...]


def spread(points: Iterable[Point]) -> Spread:
    """Returns the spread of the values of these seeds.

    >>> found = spread(enumerate([1.0, 1.1, 1.2, 1.3, 1.1, 1.2, 7.0, 7.1]))
    >>> found.groups[1], found.outliers
    (((6, 7.0), (7, 7.1)), ())
    """
    ordered = sorted(points, key=lambda point: (point[1], point[0]))
    n = len(ordered)
    if n < 2:
        return Spread(equal=False, groups=None, outliers=())
    if ordered[0][1] == ordered[-1][1]:
        return Spread(equal=True, groups=None, outliers=())
    if n < FEWEST:
        return Spread(equal=False, groups=None, outliers=())
    groups = _groups(ordered)
    smaller = min(groups, key=len) if groups is not None else ()
    outliers = tuple(point for point in _outliers(ordered) if point not in smaller)
    return Spread(equal=False, groups=groups, outliers=outliers)


def _groups(ordered: Sequence[Point]) -> tuple[tuple[Point, ...], tuple[Point, ...]] | None:
    """Returns the two sides of the largest gap, if the gap separates two groups."""
    values = [value for _, value in ordered]
    gap, cut = max((values[place] - values[place - 1], place) for place in range(1, len(values)))
    side = min(cut, len(values) - cut)
    if 2 * gap <= values[-1] - values[0] or side < 2 or 100 * side < SIDE * len(values):
        return None
    return tuple(ordered[:cut]), tuple(ordered[cut:])


def _outliers(ordered: Sequence[Point]) -> list[Point]:
    """Returns the points beyond the fences."""
    lower, upper = _quartiles(ordered)
    reach = FENCE * (upper - lower)
    return [point for point in ordered if point[1] < lower - reach or point[1] > upper + reach]


def _quartiles(points: Sequence[Point]) -> list[float]:
    """Returns the lower and the upper quartile, as the summary has them."""
    found = _binhop.summarise([value for _, value in points], [0.25, 0.75]).quantiles
    return [value for value in found if value is not None]


def notes(
    points: Iterable[tuple[int, float | None]], what: str, unit: str, *, picture: bool = False
) -> list[str]:
    """Returns notes about the values of a metric: a sentence each, with the seeds.

    Args:
        points: Seeds and values; undefined values are skipped.
        what: What the values are of, as in `l2`.
        unit: The metric's unit.
        picture: Whether a picture of the distribution is expected: if all values are equal, a note says why
            there is none.

    >>> notes(enumerate([0.001] * 10 + [0.0095]), "l2", "misses/instruction")
    ['l2: 1 outlier, more than 3 interquartile ranges from the quartiles, 1.000 and 1.000: seed 10 (9.500)']
    """
    known = [(seed, value) for seed, value in points if value is not None]
    found = spread(known)
    if found.equal:
        value = figure(known[0][1], unit)
        same = (
            f"{what}: all {len(known)} placements are equal ({value}{_of(unit)}), so there is no distribution"
        )
        return [f"{same} to draw"] if picture else []
    said = []
    if found.groups is not None:
        below, above = found.groups
        few = min(found.groups, key=len)
        side = "lower" if few is below else "upper"
        said.append(
            f"{what}: the placements fall into two groups, {_range(below, unit)} and {_range(above, unit)}"
            f"{_of(unit)}; the {side} one: {seeds(few)}"
        )
    if found.outliers:
        count = len(found.outliers)
        lower, upper = _quartiles(known)
        said.append(
            f"{what}: {counted(count, 'outlier')}, more than {FENCE} interquartile ranges from the "
            f"quartiles, {figure(lower, unit)} and {figure(upper, unit)}: {seeds(found.outliers, unit)}"
        )
    return said


def _range(group: Sequence[Point], unit: str) -> str:
    """Returns the number of placements in a group, and the range of their values."""
    low, high = figure(group[0][1], unit), figure(group[-1][1], unit)
    return f"{len(group)} at {low}" if low == high else f"{len(group)} at {low} to {high}"


def _of(unit: str) -> str:
    return " misses per 1000 instructions" if unit == "misses/instruction" else ""


def seeds(points: Sequence[Point], unit: str | None = None) -> str:
    """Returns the seeds in order, with values if `unit` is given. After the first ones it counts the rest.

    >>> seeds([(3, 1.0), (1, 2.0)])
    'seeds 1, 3'
    """
    ordered = sorted(points)
    named = [
        f"{seed}" if unit is None else f"{seed} ({figure(value, unit)})" for seed, value in ordered[:NAMED]
    ]
    more = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return f"seed{'s' * (len(ordered) != 1)} {', '.join(named)}{more}"


__all__ = ["FENCE", "FEWEST", "NAMED", "SIDE", "Point", "Spread", "notes", "seeds", "spread"]
