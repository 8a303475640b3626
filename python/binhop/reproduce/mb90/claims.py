"""Judges MB90's claims, each by its own rule.

The placements of a trial are the samples. A figure of a cell is the mean over its trials, placement by
placement. Its interval says how sure the mean is for these trials; the page also shows the interval between
trials. Claims are about the paper's overhead ratio, whose average cost is an integral over the segments that
are alive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from binhop.lazy_imports import pl
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import (
    Condition,
    Measure,
    less,
    like,
    measure,
    positive,
    ratios,
    verdict,
    with_conditions,
    within,
)
from binhop.reproduce.mb90.paper import DESIGNS, SWITCHES, WORKLOADS, Mb90Paper
from binhop.switch_cost import CUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binhop.reproduce.mb90.data import Mb90Data

TIMESHARING, COMPUTE, SERVER = WORKLOADS
STEADY = 1.1
"""M2: the most that the first interval's private CPI may be, relative to its later mean."""
FLAT = 4_000
"""M3: the instructions after which client-server has no excess (§5.3)."""
LITTLE = 0.05
"""M3: the share of the excess that counts as none."""
RISING = (350_000, 400_000)
"""M3: the instructions over which timesharing's cumulative excess must still rise."""
LEVEL = 0.1
"""M1: the share by which two ratios may differ that are called level."""
RELOAD = {"1a": 8_192 * 15, "2a": 4_096 * 200}
"""M5: the cycles that reloading the whole cache takes (§5.1)."""
ORDER = math.sqrt(10)
"""M5: half an order of magnitude."""
PART = 0.4
"""The share of the paper's 5,000 switches below which a claim about a workload is undecided."""


def judge(data: Mb90Data) -> list[Claim]:
    """Returns the claims M1 to M6, judged."""
    about_workloads = [rule(data) for rule in (_m1, _m2, _m3, _m4, _m5)]
    short = _too_short(data)
    if short is not None:
        about_workloads = [claim.undecided(short) for claim in about_workloads]
    return [*about_workloads, _m6()]


def _too_short(data: Mb90Data) -> str | None:
    """Returns why a run is too short for a verdict; None if it is long enough."""
    least = data.overheads.sort("switches", maintain_order=True).row(0, named=True)
    if least["switches"] >= PART * SWITCHES:
        return None
    return (
        f"Undecided: the trials are too short. Trial {least['trial']} of {least['workload']} has "
        f"{least['switches']:,} switches; a verdict needs {PART * SWITCHES:,.0f}, and the paper has "
        f"{SWITCHES:,}."
    )


def _claim(
    name: str,
    statement: str,
    measured: Mapping[str, float | None],
    interval: Mapping[str, tuple[float, float]],
    rule: str,
    conditions: Sequence[Condition],
) -> Claim:
    return Claim(
        name, statement, measured, interval or None, verdict(conditions), with_conditions(rule, conditions)
    )


def _percent(value: Measure) -> Measure:
    return Measure(100 * value.mean, 100 * value.low, 100 * value.high, value.n)


def _m1(data: Mb90Data) -> Claim:
    found = {(d, w): _percent(data.measure(d, w)) for d in DESIGNS for w in WORKLOADS}
    conditions = []
    for design in DESIGNS:
        each = {name: 100 * data.samples(design, name) for name in WORKLOADS}
        for other in (COMPUTE, SERVER):
            text = f"{design}: {TIMESHARING} above {other}"
            conditions.append(less(text, each[other], each[TIMESHARING], data.confidence))
        if design == "2b":
            pair = found[design, SERVER], found[design, COMPUTE]
            conditions.append(like(f"2b: {SERVER} and {COMPUTE} are level", *pair, LEVEL))
        else:
            text = f"{design}: {SERVER} above {COMPUTE}"
            conditions.append(less(text, each[COMPUTE], each[SERVER], data.confidence))
    named = {f"{w} {d}, %": value for (d, w), value in found.items()}
    return _claim(
        "M1",
        "The overhead ratio of timesharing is the largest in all four designs (3.9 to 7.8%). Client-server "
        "exceeds compute-bound in 1a, 1b and 2a; in 2b they are level (Table 4).",
        {name: value.mean for name, value in named.items()},
        {name: value.interval for name, value in named.items()},
        "Holds if each of these is so, by the differences placement by placement, in percentage points; "
        f"level means within {100 * LEVEL:g}% of each other, or overlapping intervals.",
        conditions,
    )


def _m2(data: Mb90Data) -> Claim:
    found = {cause: _first_interval(data, cause) for cause in ("involuntary", "system-call", "page-fault")}
    conditions = []
    for cause, value in found.items():
        if value is None:
            conditions.append(Condition(f"there are segments after {cause} long enough", None))
            continue
        excess = Measure(value.mean - STEADY, value.low - STEADY, value.high - STEADY, value.n)
        below = Measure(-excess.mean, -excess.high, -excess.low, value.n)
        steady = cause == "involuntary"
        text = f"{cause}: {value.text()}, {'at most' if steady else 'above'} {STEADY}; by"
        conditions.append(positive(text, below if steady else excess))
    known = {cause: value for cause, value in found.items() if value is not None}
    return _claim(
        "M2",
        "Without the effect of other processes, CPI is steady after an involuntary switch: the first "
        "interval has at most 1.1 times the later mean. After a system call or a page fault it is higher "
        "(§5.1, Figure 3).",
        {cause: value.mean for cause, value in known.items()},
        {cause: value.interval for cause, value in known.items()},
        "Timesharing, trial 0, design 1a: private CPI of the first interval relative to the mean of the "
        "later ones up to the cut.",
        conditions,
    )


def _first_interval(data: Mb90Data, cause: str) -> Measure | None:
    """Returns the first interval's private CPI relative to the later mean; None without later intervals."""
    rows = data.curve("1a", TIMESHARING, 0, cause).filter(pl.col("alive") > 0)
    counted = rows.filter((pl.col("number") == 0) | (pl.col("alive") >= CUT))
    first = counted.filter(number=0).sort("seed")
    later = (
        counted.filter(pl.col("number") > 0)
        .group_by("seed")
        .agg(cpi=pl.col("cycles_private").sum() / pl.col("instructions").sum())
        .sort("seed")
    )
    if later.height < first.height or first.is_empty():
        return None
    return measure(first["cpi_private"].to_numpy() / later["cpi"].to_numpy(), data.confidence)


def _m3(data: Mb90Data) -> Claim:
    late = data.excess_between("1a", SERVER, FLAT, None)
    whole = data.excess_between("1a", SERVER, 0, None)
    share = measure(ratios(late, whole) if whole.mean() else np.zeros(len(whole)), data.confidence)
    spare = Measure(LITTLE - share.mean, LITTLE - share.high, LITTLE - share.low, share.n)
    rising = measure(data.excess_between("1a", TIMESHARING, *RISING), data.confidence)
    return _claim(
        "M3",
        "Client-server has no excess beyond 4,000 instructions after a switch. The cumulative excess of "
        "timesharing still rises at 400,000 (§5.1, §5.3).",
        {f"share beyond {FLAT}": share.mean, "cycles from 350,000 to 400,000": rising.mean},
        {f"share beyond {FLAT}": share.interval, "cycles from 350,000 to 400,000": rising.interval},
        f"Trial 0, design 1a. No excess means at most {100 * LITTLE:g}% of the cumulative excess up to the "
        "cut.",
        [
            positive(f"{SERVER}: {share.text()} of the excess is later than {FLAT:,}; to spare", spare),
            positive(f"{TIMESHARING}: excess cycles between {RISING[0]:,} and {RISING[1]:,}", rising, 1),
        ],
    )


def _m4(data: Mb90Data) -> Claim:
    conditions = []
    measured: dict[str, float | None] = {}
    limits: dict[str, tuple[float, float]] = {}
    for workload in WORKLOADS:
        falls = {}
        for small, large in (("1a", "1b"), ("2a", "2b")):
            both = [100 * data.samples(design, workload) for design in (small, large)]
            falls[small, large] = fall = measure(both[0] - both[1], data.confidence)
            name = f"{workload} {small} to {large}"
            measured[name], limits[name] = -fall.mean, (-fall.high, -fall.low)
            if workload == TIMESHARING:
                conditions.append(positive(f"{workload} falls from {small} to {large}", fall))
        if workload != TIMESHARING:
            both_fall = all(fall.low > 0 for fall in falls.values())
            conditions.append(Condition(f"{workload} does not fall in both pairs", not both_fall))
    return _claim(
        "M4",
        "Four times the cache lowers the overhead ratio of timesharing (6.7 to 3.9%; 7.6 to 5.5%). The other "
        "workloads show no consistent trend (§5.6).",
        measured,
        limits,
        "Differences in percentage points, placement by placement. No consistent trend means that the "
        "ratio does not fall in both pairs of designs by more than its interval.",
        conditions,
    )


def _m5(data: Mb90Data) -> Claim:
    found = {(d, w): data.measure(d, w, "document") for d in DESIGNS for w in (TIMESHARING, SERVER)}
    conditions = []
    for (design, workload), value in found.items():
        order = 4 if workload == TIMESHARING else 2
        low, high = 10**order / ORDER, 10**order * ORDER
        text = f"{workload} {design}: of the order of 10^{order}"
        conditions.append(within(text, value, low, high, 0))
    for design, cycles in RELOAD.items():
        value = found[design, TIMESHARING]
        text = f"{TIMESHARING} {design}: an order below {cycles:,}"
        conditions.append(within(text, value, 0.0, cycles / ORDER, 0))
    named = {f"{w} {d}": value for (d, w), value in found.items()}
    return _claim(
        "M5",
        "The average cost of a switch is of the order of 10^2 cycles (client-server) to 10^4 cycles "
        "(timesharing), an order of magnitude below reloading the whole cache (§5.1, Table 4).",
        {name: value.mean for name, value in named.items()},
        {name: value.interval for name, value in named.items()},
        "Of the order of 10^n means from 10^n / √10 to 10^n · √10. An order below means less than the "
        "cycles of a reload / √10.",
        conditions,
    )


def _m6() -> Claim:
    trials = Mb90Paper().trials
    same = [trial for trial in trials if trial.recomputed == trial.ratio]
    wrong = ", ".join(f"{trial.name} {trial.recomputed}" for trial in trials if trial not in same)
    return Claim(
        "M6",
        "Each row of Table 4 gives its overhead ratio from its other columns.",
        {"rows": float(len(same)), "of": float(len(trials))},
        None,
        "holds" if len(same) == len(trials) else "fails",
        "Holds if average cost × 5000 / total cycles is the printed ratio in every row, to the printed "
        f"digit, with halves rounded up. Other rows: {wrong or 'none'}. This does not depend on the scale.",
    )
