"""Judges the claims about misses: K5 to K8, K10 to K12."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import (
    Condition,
    Measure,
    counted,
    less,
    like,
    measure,
    positive,
    ratios,
    verdict,
    with_conditions,
    within,
)
from binhop.reproduce.kh90.data import (
    HEURISTICS,
    LARGE,
    MAIN,
    SAMPLES,
    SIZES,
    SMALL,
    WAYS,
    WORKLOADS,
    Kh90Data,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

TUNED = {("4MiB", 1), ("16MiB", 4)}
"""The caches of 256 bins, for which all policies but hierarchical are tuned (Table 4)."""
POOLS = ("256KiB", "512KiB", "1MiB", "2MiB", "4MiB", "8MiB", "16MiB")
FRAMES = {pool: 16 << step for step, pool in enumerate(POOLS)}
"""The frames of 16 KiB in each pool."""
CELLS = tuple(product(WORKLOADS, SIZES))


def reduction(data: Kh90Data, workload: str, size: str, ways: int) -> NDArray[np.float64]:
    """Returns samples of 1 − mean(hierarchical) / mean(random), with the paper's number of placements."""
    careful = data.table(workload, "hierarchical", size, ways)
    return 1 - ratios(careful, data.table(workload, "random", size, ways))


def k5(data: Kh90Data) -> Claim:
    """Judges the mean reduction by ways."""
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
        "in direct-mapped caches, less at 2 ways, less again at 4 (paper: 16.8%, 9.9%, 5.9%).",
        {f"{ways} way": value.mean for ways, value in found.items()},
        {f"{ways} way": value.interval for ways, value in found.items()},
        verdict(conditions),
        with_conditions(rule, conditions),
    )


def k6(data: Kh90Data) -> Claim:
    """Judges whether hierarchical's intervals are narrower than random's, and disjoint from random's."""
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
        "Hierarchical's intervals are narrower than random's in most cells (paper: 57 of 72); in "
        "direct-mapped "
        "cells the two intervals are disjoint, hierarchical lower, in 14 of 24.",
        {"narrower of 72": narrower, "disjoint of 24": disjoint},
        None,
        verdict(conditions),
        with_conditions(
            f"Counted over the cells of Table 1 and Appendix A, {SAMPLES} placements each.", conditions
        ),
    )


def k7(data: Kh90Data) -> Claim:
    """Judges the order of the heuristics in Table 3."""
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
        with_conditions(
            "≈: means within 2%, or intervals that overlap, so that wide intervals alone may bear it out; <: "
            "the interval of the difference, placement by "
            f"placement (n = {len(large['random'])}), lies on one side of nought.",
            conditions,
        ),
    )


def k8(data: Kh90Data) -> Claim:
    """Judges the policies in caches for which they were not tuned."""
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
        with_conditions(
            "For each cache that has not 256 bins: hierarchical's mean over that of each other policy is at "
            "most "
            "1.01, with its interval. Given is the policy that comes nearest, or wins.",
            conditions,
        ),
    )


def k10(data: Kh90Data) -> Claim:
    """Judges equal page-coloring among many processes."""
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
        with_conditions(
            "4 MiB direct-mapped, pool of 4 MiB. Suffers: more misses than bin-hopping, which is as simple "
            "and tuned "
            "for the same cache. Part: fewer than equal, more than bin-hopping.",
            conditions,
        ),
    )


def k11(data: Kh90Data) -> Claim:
    """Judges the intervals of random by ways."""
    count = sum(
        measure(data.table(workload, "random", size, 1), data.confidence).half
        > measure(data.table(workload, "random", size, 4), data.confidence).half
        for workload, size in CELLS
    )
    conditions = [counted("random's half-width at 1 way exceeds that at 4 ways", count, 24, 20)]
    return Claim(
        "K11",
        "Random's half-width at 1 way exceeds that at 4 ways in at least 20 of 24 (trace, size) pairs "
        "(paper: 23).",
        count,
        None,
        verdict(conditions),
        with_conditions(f"Counted, {SAMPLES} placements each.", conditions),
    )


def k12(data: Kh90Data) -> Claim:
    """Judges the knee of the pool: the cost of each pool relative to a pool of one frame for each bin."""
    conditions = []
    shown: dict[str, Measure] = {}
    for name in ("bin-hopping", "sequential", "hierarchical"):
        one_each = data.samples(MAIN, name, "4MiB", 1, LARGE)
        over = {
            FRAMES[pool]: measure(
                ratios(data.samples(MAIN, name, "4MiB", 1, pool), one_each), data.confidence
            )
            for pool in POOLS
            if pool != LARGE
        }
        shown |= {f"{name}: {frames} frames over 256": value for frames, value in over.items()}
        more, fewer = ({k: v for k, v in over.items() if (k > 256) == up} for up in (True, False))
        conditions.append(_all_within(f"{name}: larger pools change it by at most 2%", more, 0.98, 1.02))
        if name == "sequential":
            conditions.append(_all_within(f"{name}: smaller ones by at most 5%", fewer, 0.95, 1.05))
        else:
            conditions.append(within(f"{name}: 128 frames cost more than 1%", over[128], 1.01, np.inf))
            conditions.append(within(f"{name}: 16 frames cost more than 5%", over[16], 1.05, np.inf))
    return Claim(
        "K12",
        "mult2.2, 4 MiB direct-mapped: one available page per bin (256 frames) is the knee for bin-hopping, "
        "sequential and hierarchical; sequential hardly changes down to 16 frames.",
        {name: value.mean for name, value in shown.items()},
        {name: value.interval for name, value in shown.items()},
        verdict(conditions),
        with_conditions(
            "Means over pools of 16 to 1024 frames, relative to 256. A knee at 256: both larger pools change "
            "misses by at most 2% (1% a doubling), and one step below already costs more than that, 16 "
            "frames more than 5%. Sequential can have no knee there if it hardly changes down to 16 frames: "
            "of it is asked that 256 suffice, and that no smaller pool changes it by more than 5%.",
            conditions,
        ),
    )


def _all_within(text: str, values: dict[int, Measure], low: float, high: float) -> Condition:
    """Returns the condition that the means of several pools lie between two bounds."""
    each = [within(f"{frames} frames", value, low, high) for frames, value in values.items()]
    truths = [condition.truth for condition in each]
    truth = False if False in truths else True if all(truths) else None
    return Condition(f"{text} ({', '.join(condition.text for condition in each)})", truth)


ALL = (k5, k6, k7, k8, k10, k11, k12)
