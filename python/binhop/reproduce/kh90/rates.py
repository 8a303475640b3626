"""Claims about misses: K5 to K8, K10 to K14."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from binhop.models.conflicts import equivalent
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import (
    Condition,
    counted,
    less,
    like,
    measure,
    positive,
    ratios,
    told,
    verdict,
    within,
)
from binhop.reproduce.kh90.data import HEURISTICS, LARGE, MAIN, SAMPLES, SIZES, SMALL, WAYS, WORKLOADS, Data

if TYPE_CHECKING:
    from numpy.typing import NDArray

TUNED = {("4MiB", 1), ("16MiB", 4)}
"""Caches of 256 bins: what all but hierarchical are tuned for (Table 4)."""
POOLS = ("256KiB", "512KiB", "1MiB", "2MiB", "4MiB", "8MiB", "16MiB")
CELLS = tuple(product(WORKLOADS, SIZES))


def reduction(data: Data, workload: str, size: str, ways: int) -> NDArray[np.float64]:
    """Samples of 1 − mean(hierarchical) / mean(random), with the document's number of placements."""
    careful = data.table(workload, "hierarchical", size, ways)
    return 1 - ratios(careful, data.table(workload, "random", size, ways))


def k5(data: Data) -> Claim:
    """The mean reduction by ways."""
    by_ways = {ways: sum(reduction(data, *cell, ways) for cell in CELLS) / len(CELLS) for ways in WAYS}
    found = {ways: measure(samples, data.confidence) for ways, samples in by_ways.items()}
    conditions = [
        within("direct-mapped between 10% and 20%", found[1], 0.10, 0.20),
        positive("less at 2 ways than at 1, by", measure(by_ways[1] - by_ways[2], data.confidence)),
        positive("less at 4 ways than at 2, by", measure(by_ways[2] - by_ways[4], data.confidence)),
    ]
    rule = (
        "Reduction is 1 - mean(hierarchical)/mean(random) of a cell, averaged over eight workloads and three "
        f"sizes; the interval is over the {SAMPLES} placements, each averaged over all cells."
    )
    return Claim(
        "K5",
        "On means over eight workloads and three sizes, hierarchical removes 10-20% of random's level-2 "
        "misses "
        "in direct-mapped caches, less at 2 ways, less again at 4 (document: 16.8%, 9.9%, 5.9%).",
        {f"{ways} way": value.mean for ways, value in found.items()},
        {f"{ways} way": value.interval for ways, value in found.items()},
        verdict(conditions),
        told(rule, conditions),
    )


def k6(data: Data) -> Claim:
    """Narrower intervals, and disjoint ones."""
    narrower, disjoint = 0, 0
    for (workload, size), ways in product(CELLS, WAYS):
        random, careful = (
            measure(data.table(workload, heuristic, size, ways), data.confidence)
            for heuristic in ("random", "hierarchical")
        )
        narrower += careful.half < random.half
        disjoint += ways == 1 and careful.high < random.low
    conditions = [
        counted("hierarchical's interval is narrower (most cells)", narrower, 72, 37),
        counted("direct-mapped: the intervals are disjoint, hierarchical lower,", disjoint, 24, 14),
    ]
    return Claim(
        "K6",
        "Hierarchical's intervals are narrower than random's in most cells (document: 57 of 72); in "
        "direct-mapped "
        "cells the two intervals are disjoint, hierarchical lower, in 14 of 24.",
        {"narrower of 72": narrower, "disjoint of 24": disjoint},
        None,
        verdict(conditions),
        told(f"Counted over the cells of Table 1 and Appendix A, {SAMPLES} placements each.", conditions),
    )


def k7(data: Data) -> Claim:
    """The order of Table 3."""
    large = {name: data.samples(MAIN, name, "4MiB", 1, LARGE) for name in HEURISTICS}
    small = {name: data.samples(MAIN, name, "4MiB", 1, SMALL) for name in HEURISTICS}
    level = data.confidence
    good = ("bin-hopping", "sequential", "hierarchical")
    hashed, equal = "page-coloring-pid-hash", "page-coloring-equal"

    def below(pool: str, of: dict[str, NDArray[np.float64]], low: str, high: str) -> Condition:
        return less(f"{pool} pool, {low} < {high}, by", of[low], of[high], level)

    conditions = [
        like(f"large pool, {a} ≈ {b}", measure(large[a], level), measure(large[b], level))
        for a, b in (good[:2], good[1:], good[::2])
    ]
    conditions += [below("large", large, name, hashed) for name in good]
    conditions += [below("large", large, hashed, equal), below("large", large, equal, "random")]
    conditions += [
        below("small", small, "sequential", name) for name in ("hierarchical", "bin-hopping", "random")
    ]
    conditions += [below("small", small, name, "random") for name in ("hierarchical", "bin-hopping")]
    conditions += [below("small", small, "random", name) for name in (equal, hashed)]
    names = [
        (f"{pool}: {name}", samples)
        for pool, of in (("large", large), ("small", small))
        for name, samples in of.items()
    ]
    return Claim(
        "K7",
        "mult2.2, 4 MiB direct-mapped. Large pool: bin-hopping ≈ sequential ≈ hierarchical (0.60) < "
        "pid-hash (0.64) "
        "< equal (0.69) < random (0.71). Small pool: sequential best (0.61), hierarchical 0.66, bin-hopping "
        "0.67, "
        "random 0.71, both page-colorings worse than random (0.83-0.85).",
        {name: float(samples.mean()) for name, samples in names},
        {name: measure(samples, level).interval for name, samples in names},
        verdict(conditions),
        told(
            "≈: means within 2%, or intervals that overlap; <: the interval of the difference, placement by "
            f"placement (n = {len(large['random'])}), lies on one side of nought.",
            conditions,
        ),
    )


def k8(data: Data) -> Claim:
    """Caches that a policy was not tuned for."""
    conditions = []
    worst = {}
    intervals = {}
    for size, ways in product(SIZES, WAYS):
        if (size, ways) in TUNED:
            continue
        mine = data.samples(MAIN, "hierarchical", size, ways)
        others = {
            name: measure(ratios(mine, data.samples(MAIN, name, size, ways)), data.confidence)
            for name in HEURISTICS
            if name != "hierarchical"
        }
        name = max(others, key=lambda name: others[name].mean)
        cell = f"{size} {ways}-way"
        worst[cell], intervals[cell] = others[name].mean, others[name].interval
        truths = [within("", value, -np.inf, 1.01).truth for value in others.values()]
        truth = False if False in truths else True if all(truths) else None
        conditions.append(Condition(f"{cell}: {others[name].text()} of {name}", truth))
    return Claim(
        "K8",
        "mult2.2: in configurations a policy was not tuned for, hierarchical is best or within 1% of the "
        "best.",
        worst,
        intervals,
        verdict(conditions),
        told(
            "For each cache that has not 256 bins: hierarchical's mean over that of each other policy is at "
            "most "
            "1.01, with its interval. Given is the policy that comes nearest, or wins.",
            conditions,
        ),
    )


def k10(data: Data) -> Claim:
    """Equal page-coloring among many processes."""
    samples = {name: data.samples(MAIN, name, "4MiB", 1) for name in HEURISTICS}
    equal, hashed, hopping = (
        samples[name] for name in ("page-coloring-equal", "page-coloring-pid-hash", "bin-hopping")
    )
    conditions = [
        less("bin-hopping < equal, by", hopping, equal, data.confidence),
        less("pid-hash < equal, by", hashed, equal, data.confidence),
        less("bin-hopping < pid-hash, by", hopping, hashed, data.confidence),
    ]
    mended = float((equal - hashed).mean() / (equal - hopping).mean())
    return Claim(
        "K10",
        "mult2.2: equal page-coloring suffers under multiprogramming; pid-hash mends part of it.",
        {
            "equal over bin-hopping": float(equal.mean() / hopping.mean()),
            "share that pid-hash mends": mended,
        },
        {"equal over bin-hopping": measure(ratios(equal, hopping), data.confidence).interval},
        verdict(conditions),
        told(
            "4 MiB direct-mapped, pool of 4 MiB. Suffers: more misses than bin-hopping, which is as simple "
            "and tuned "
            "for the same cache. Part: fewer than equal, more than bin-hopping.",
            conditions,
        ),
    )


def k11(data: Data) -> Claim:
    """Random's intervals by ways."""
    count = sum(
        measure(data.table(workload, "random", size, 1), data.confidence).half
        > measure(data.table(workload, "random", size, 4), data.confidence).half
        for workload, size in CELLS
    )
    conditions = [counted("random's half-width at 1 way exceeds that at 4 ways", count, 24, 20)]
    return Claim(
        "K11",
        "Random's half-width at 1 way exceeds that at 4 ways in at least 20 of 24 (trace, size) pairs "
        "(document: 23).",
        count,
        None,
        verdict(conditions),
        told(f"Counted, {SAMPLES} placements each.", conditions),
    )


def k12(data: Data) -> Claim:
    """The knee of the pool."""
    conditions = []
    shown = {}
    for name in ("bin-hopping", "sequential", "hierarchical"):
        at = {pool: data.samples(MAIN, name, "4MiB", 1, pool) for pool in POOLS}
        knee = measure(ratios(at["4MiB"], at["16MiB"]), data.confidence)
        least = measure(ratios(at["256KiB"], at["4MiB"]), data.confidence)
        shown[f"{name}: 256 frames over 1024"], shown[f"{name}: 16 frames over 256"] = knee, least
        conditions.append(within(f"{name}, 256 frames cost at most 2% over 1024", knee, -np.inf, 1.02))
        if name == "sequential":
            conditions.append(within(f"{name}, 16 frames cost at most 5% over 256", least, -np.inf, 1.05))
        else:
            conditions.append(within(f"{name}, 16 frames cost more than 5% over 256", least, 1.05, np.inf))
    return Claim(
        "K12",
        "mult2.2, 4 MiB direct-mapped: one available page per bin (256 frames) is the knee for bin-hopping, "
        "sequential and hierarchical; sequential hardly changes down to 16 frames.",
        {name: value.mean for name, value in shown.items()},
        {name: value.interval for name, value in shown.items()},
        verdict(conditions),
        told("Ratios of means over pools of 16 to 1024 frames.", conditions),
    )


def k13(data: Data) -> Claim:
    """What hierarchical is worth."""
    careful = data.samples(MAIN, "hierarchical", "1MiB", 1)
    by_ways = {ways: data.samples(MAIN, "random", "1MiB", ways) for ways in WAYS}
    by_size = {int(size.removesuffix("MiB")): data.samples(MAIN, "random", size, 1) for size in SIZES}
    shown, intervals, conditions = {}, {}, []
    for name, at, low, high in (("ways", by_ways, 1.3, 1.9), ("MiB", by_size, 1.4, 2.0)):
        value, interval = _worth(careful, at, data.confidence)
        shown[name] = value
        if interval is None or value is None:
            beaten = careful.mean() > at[1].mean()
            conditions.append(Condition(f"{name} (outside of what was measured)", False if beaten else None))
            continue
        intervals[name] = interval
        inside, apart = low <= interval[0] and interval[1] <= high, interval[1] < low or interval[0] > high
        text = f"between {low} and {high} {name} ({value:.2f}, {interval[0]:.2f} to {interval[1]:.2f})"
        conditions.append(Condition(text, True if inside else False if apart else None))
    return Claim(
        "K13",
        "Hierarchical at 1 MiB direct-mapped is worth about 1.6 ways or 1.7 MiB (mult2.2).",
        shown,
        intervals,
        verdict(conditions),
        told(
            "Where random placement would reach hierarchical's mean, linearly in log2 of ways and of size "
            "(Figure 11); "
            "interval by 2000 bootstrap samples of placements; about: within 0.3.",
            conditions,
        ),
    )


def _worth(
    careful: NDArray[np.float64], at: dict[int, NDArray[np.float64]], confidence: float
) -> tuple[float | None, tuple[float, float] | None]:
    """The equivalent ways or size, and its interval: placements drawn anew, all cells together."""
    n = min(len(careful), *(len(samples) for samples in at.values()))
    value = equivalent(float(careful.mean()), {x: float(samples.mean()) for x, samples in at.items()})
    draws = np.random.default_rng(0).integers(0, n, size=(2000, n))
    drawn = [
        equivalent(float(careful[draw].mean()), {x: float(samples[draw].mean()) for x, samples in at.items()})
        for draw in draws
    ]
    inside = [one for one in drawn if one is not None]
    if value is None or len(inside) < 0.99 * len(drawn):
        return value, None
    low, high = np.quantile(inside, [(1 - confidence) / 2, (1 + confidence) / 2])
    return value, (float(low), float(high))


def k14(data: Data) -> Claim:
    """The absolute gain by size."""
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
        told("Misses per 1000 instructions that hierarchical saves, placement by placement.", conditions),
    )


ALL = (k5, k6, k7, k8, k10, k11, k12, k13, k14)
