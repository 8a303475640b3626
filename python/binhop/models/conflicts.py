"""Computes page conflicts under a random placement (KH90 §2), and what a gain is worth (KH90 §4.2.1).

The counting rules: a bin is the cache sets that one frame maps to; a cache of B bins and A ways holds
N = A·B frames. A bin that u pages of one address space map to has max(0, u − A) conflicts. A random placement
draws U of P frames without replacement, P/B of which lie in each bin, so u is hypergeometric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from binhop.arguments import integer, seed_number
from binhop.errors import RequestError
from binhop.lazy_imports import stats
from binhop.models.estimate import Estimate
from binhop.numbers import size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Cache:
    """`Cache` is a cache as pages see it, with the memory behind it.

    Attributes:
        frames: P, the number of frames of memory. Every bin has the same number of frames.
        bins: B, how many bins the cache has: size / (ways × page).
        ways: A, how many frames of one bin the cache holds.

    >>> Cache.of("1MiB", ways=1) == Cache(frames=8192, bins=64, ways=1)
    True
    """

    frames: int
    bins: int
    ways: int

    def __post_init__(self) -> None:
        for name in ("frames", "bins", "ways"):
            integer(getattr(self, name), name, least=1)
        if self.frames % self.bins:
            rule = f"the same number of the {self.frames} frames must lie in each bin"
            raise RequestError(str(self.bins), "bins", rule, "give a number that divides the frames")

    @classmethod
    def of(cls, size: str, ways: int, *, memory: str = "128MiB", page: str = "16KiB") -> Cache:
        """Returns the cache of this size and ways. Memory and pages are those of KH90 unless given."""
        pages = size_in_bytes(size) // size_in_bytes(page)
        return cls(frames=size_in_bytes(memory) // size_in_bytes(page), bins=pages // ways, ways=ways)

    @property
    def capacity(self) -> int:
        """The number of frames that the whole cache holds: N."""
        return self.bins * self.ways

    @property
    def frames_per_bin(self) -> int:
        """P/B."""
        return self.frames // self.bins


def probability(pages: int, cache: Cache) -> NDArray[np.float64]:
    """Returns P(u in bin) for u = 0 … min(P/B, U): Equation 1 of KH90.

    >>> float(probability(2, Cache(frames=4, bins=2, ways=1)).round(4)[2])
    0.1667
    """
    _placeable(pages, cache)
    most = min(cache.frames_per_bin, pages)
    # A frozen distribution would first make its docstring, which takes a third of the time.
    chance = stats.hypergeom.pmf(np.arange(most + 1), cache.frames, cache.frames_per_bin, pages)
    return np.asarray(chance, dtype=np.float64)


@lru_cache(maxsize=4096)
def average(pages: int, cache: Cache) -> float:
    """Returns C_avg, the mean conflicts of a random placement of U pages: Equation 2 of KH90.

    >>> round(average(64, Cache.of("1MiB", ways=1)), 4)
    23.2676
    """
    chance = probability(pages, cache)
    over = np.maximum(np.arange(len(chance)) - cache.ways, 0)
    return float(cache.bins * (over * chance).sum())


def minimum(pages: int, cache: Cache) -> int:
    """Returns C_min, the conflicts of the most even placement: max(0, U − N)."""
    _placeable(pages, cache)
    return max(0, pages - cache.capacity)


def maximum(pages: int, cache: Cache) -> int:
    """Returns C_max, the conflicts of the worst placement, which puts all pages in as few bins as possible.

    >>> maximum(130, Cache.of("1MiB", ways=1))  # a bin of 128 frames filled, two pages in another
    128
    """
    _placeable(pages, cache)
    full, rest = divmod(pages, cache.frames_per_bin)
    return full * max(0, cache.frames_per_bin - cache.ways) + max(0, rest - cache.ways)


def mapping(pages: int, cache: Cache) -> float:
    """Returns C_avg − C_min, the mapping conflicts, which a careful placement could avoid (KH90 Figure 4)."""
    return average(pages, cache) - minimum(pages, cache)


def monte_carlo(pages: int, cache: Cache, *, samples: int = 1000, seed: int = 0) -> Estimate:
    """Returns a Monte Carlo estimate of `average`, from random placements that are drawn."""
    _placeable(pages, cache)
    samples = integer(samples, "samples", least=2)  # a standard error needs two
    population = [cache.frames_per_bin] * cache.bins
    draws = np.random.default_rng(seed_number(seed)).multivariate_hypergeometric(
        population, pages, size=samples, method="marginals"
    )
    conflicts = np.maximum(draws - cache.ways, 0).sum(axis=1)
    return Estimate(float(conflicts.mean()), float(conflicts.std(ddof=1) / math.sqrt(samples)))


def equivalent(value: float, measured: Mapping[float, float]) -> float | None:
    """Returns where `value` lies between measurements, linearly in log2: a gain's worth (KH90 Figure 11).

    Args:
        value: What the careful placement reaches, such as misses per 1000 instructions.
        measured: What random placement reaches at each number of ways, or at each size.

    Returns:
        The fictional ways or size with which random placement would reach `value`; None if these lie outside
        of the measurements.

    >>> round(equivalent(1.1858, {1: 1.4953, 2: 1.0480}), 1)  # KH90 Table 1: ways
    1.6
    >>> round(equivalent(1.1858, {1: 1.4953, 4: 0.7121}), 1)  # KH90 Table 1: MiB
    1.7
    """
    points = sorted(measured.items())
    for (x0, y0), (x1, y1) in pairwise(points):
        if min(y0, y1) <= value <= max(y0, y1) and y0 != y1:
            share = (value - y0) / (y1 - y0)
            return float(2 ** (math.log2(x0) + share * (math.log2(x1) - math.log2(x0))))
    return None


def _placeable(pages: int, cache: Cache) -> None:
    if not 0 <= integer(pages, "pages") <= cache.frames:
        rule = f"memory has {cache.frames} frames"
        raise RequestError(str(pages), "pages", rule, f"give a number from 0 to {cache.frames}")
