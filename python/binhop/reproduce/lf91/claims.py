"""Judges LF91's claims, each by its own rule. Counts are exact, so no claim has an interval."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from binhop.models.estimate import Estimate, agrees
from binhop.reproduce.claims import Claim
from binhop.reproduce.lf91.data import COLORS, HASHED, MIB, MOST, REASONABLE, SIZES, WORKLOADS, Lf91Paper, mib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binhop.reproduce.claims import Verdict
    from binhop.reproduce.lf91.data import Lf91Data

SINGLE = WORKLOADS[:4]
"""The single programs, without the mix."""
PART = 0.5
"""The smallest share of the paper's references with which a claim about its programs is decided."""


def judge(data: Lf91Data) -> list[Claim]:
    """Returns the claims L1 to L8, judged."""
    about_programs = [rule(data) for rule in (_l2, _l3, _l4, _l5, _l6, _l7, _l8)]
    short = _too_short(data)
    if short is not None:
        about_programs = [claim.undecided(short) for claim in about_programs]
    return [_l1(data), *about_programs]


def _too_short(data: Lf91Data) -> str | None:
    """Returns why a run is too short for a verdict; None if it is long enough."""
    paper = Lf91Paper()
    share, workload = min((data.references(name) / paper.references(name), name) for name in WORKLOADS)
    if share >= PART:
        return None
    return (
        f"Undecided: the prefix is too short. Of {workload} {100 * share:.2g}% of the paper's references "
        f"were read; a verdict needs {100 * PART:g}%."
    )


def _verdict(holds: bool) -> Verdict:
    return "holds" if holds else "fails"


def _claim(
    name: str, statement: str, measured: float | Mapping[str, float | None], holds: bool, how: str
) -> Claim:
    return Claim(name, statement, measured, None, _verdict(holds), how)


def _l1(data: Lf91Data) -> Claim:
    cells = list(data.model.iter_rows(named=True))
    off = [abs(cell["monte_carlo"] / cell["model"] - 1) for cell in cells]
    errors = [abs(cell["monte_carlo"] - cell["model"]) / cell["error"] for cell in cells if cell["error"] > 0]
    far = [cell for cell in cells if not agrees(cell["model"], Estimate(cell["monte_carlo"], cell["error"]))]
    return _claim(
        "L1",
        "The analytic model of effective memory utilization agrees with simulator runs of the model (§3).",
        {"largest deviation": max(off), "largest deviation in standard errors": max(errors)},
        not far,
        f"Holds if model and Monte Carlo ({cells[0]['runs']} runs each) lie within 1% or 3 standard errors "
        f"of each other in every cell of Figure 1. {len(cells) - len(far)} of {len(cells)} do. "
        "This does not depend on the programs or on the scale.",
    )


def _l2(data: Lf91Data) -> Claim:
    cells = [(name, colors) for name in SINGLE for colors in COLORS]
    used = {cell: data.used(*cell) or 0.0 for cell in cells}
    lowest = min(used, key=lambda cell: used[cell])
    below = [cell for cell in cells if cell[1] > 1 and used[cell] < (data.modelled(*cell) or 0.0)]
    by_size = sorted(SINGLE, key=data.pages)
    ordered = all(used[a, MOST] < used[b, MOST] for a, b in pairwise(by_size))
    return _claim(
        "L2",
        "sor, tree, tv and lin stay at or above 0.90 simulated utilization for every number of colors up to "
        "64, above the model, and nearer to 1 the larger the program (§4.1).",
        {f"{name}, {MOST} colors": used[name, MOST] for name in SINGLE},
        used[lowest] >= 0.9 and not below and ordered,
        "Holds if (a) every cell is at least 0.90, (b) every cell of two colors and more is at or above the "
        f"model, (c) at {MOST} colors utilization increases with unique pages. "
        f"(a) lowest {used[lowest]:.3f} ({lowest[0]}, {lowest[1]} colors); "
        f"(b) {len(below)} cells below the model{_listed(below)}; "
        f"(c) by size {', '.join(f'{name} {used[name, MOST]:.3f}' for name in by_size)}: "
        f"{'increasing' if ordered else 'not increasing'}.",
    )


def _listed(cells: list[tuple[str, int]]) -> str:
    return f" ({', '.join(f'{name} at {colors}' for name, colors in cells)})" if cells else ""


def _l3(data: Lf91Data) -> Claim:
    pairs = {c: (data.used("mult", c) or 0.0, data.modelled("mult", c) or 0.0) for c in COLORS if c > 1}
    above = [colors for colors, (used, modelled) in pairs.items() if used >= modelled]
    text = ", ".join(f"{c}: {used:.3f} / {modelled:.3f}" for c, (used, modelled) in pairs.items())
    used, modelled = pairs[MOST]
    return _claim(
        "L3",
        "mult without pid hash lies below the model: many small programs have the same layout (§4.1).",
        {"simulated, 64 colors": used, "model, 64 colors": modelled},
        not above,
        "Holds if simulated utilization is below the model at every number of colors from 2. Simulated / "
        f"model by colors: {text}. Not below at: {', '.join(map(str, above)) or 'none'}.",
    )


def _combinations() -> Iterator[tuple[str, int]]:
    """Returns the 20 combinations of §4.2: five programs, the memory sizes of `REASONABLE`."""
    for name in WORKLOADS:
        for size in REASONABLE:
            yield name, size


def _l4(data: Lf91Data) -> Claim:
    paper = Lf91Paper()
    changed = [cell for cell in _combinations() if abs(data.ratio(*cell) - 1) >= 0.01]
    theirs = [cell for cell in _combinations() if abs(paper.ratio(*cell) - 1) >= 0.01]
    text = ", ".join(
        f"{name} {mib(size)} {100 * (data.ratio(name, size) - 1):+.1f}%" for name, size in changed
    )
    return _claim(
        "L4",
        "With 8 MB and more, the page-fault rate of 16 of 20 combinations of program and memory changes by "
        "less than 1% from 1 to 64 colors (§4.2; the paper's own tables give 15).",
        {"changed by less than 1%": float(20 - len(changed)), "paper's tables": float(20 - len(theirs))},
        20 - len(changed) >= 15,
        f"Holds if at least 15 of the 20 do. {20 - len(changed)} do; changed: {text or 'none'}.",
    )


def _l5(data: Lf91Data) -> Claim:
    cells = {(name, size): data.ratio(name, size) for name in WORKLOADS for size in SIZES}
    best = min(cells, key=lambda cell: cells[cell])
    fewer = [cell for cell, ratio in cells.items() if ratio <= 0.9]
    return _claim(
        "L5",
        "Colors can reduce page faults: a sweep is LRU's worst case, and colors keep a part of it in memory "
        "(§4.2: sor at 16 MB −12.7%, lin at 2 MB −27.0%).",
        {"largest change, %": 100 * (cells[best] - 1)},
        bool(fewer),
        "Holds if some combination of program and memory has at least 10% fewer faults with 64 colors than "
        f"with one. Of 35, {len(fewer)} do; the largest reduction is {best[0]} at {mib(best[1])}, "
        f"{100 * (cells[best] - 1):+.1f}%.",
    )


def _l6(data: Lf91Data) -> Claim:
    plain, hashed = (data.used(name, MOST) or 0.0 for name in ("mult", HASHED))
    modelled = data.modelled("mult", MOST) or 0.0
    nearer = abs(hashed - modelled) < abs(plain - modelled)
    return _claim(
        "L6",
        "With pid hash, mult returns towards the model (binhop's own claim: the paper hashed nothing).",
        {"without hash": plain, "with hash": hashed, "model": modelled},
        plain < modelled and nearer,
        f"Holds if at {MOST} colors utilization without the hash is below the model and with it is nearer. "
        f"Distance to the model {abs(plain - modelled):.3f} without, {abs(hashed - modelled):.3f} with.",
    )


def _l7(data: Lf91Data) -> Claim:
    paper = Lf91Paper()
    names = ("tree", "tv")
    found = {name: data.ratio(name, MIB) for name in names}
    text = ", ".join(
        f"{name} {100 * (found[name] - 1):+.1f}% (paper {100 * (paper.ratio(name, MIB) - 1):+.1f}%)"
        for name in names
    )
    return _claim(
        "L7",
        "Many colors hurt very small memories: at 1 MB, 64 colors leave four frames each (Appendix A: tree "
        "+31%, tv +20%).",
        {f"{name}, 1 MB, change in %": 100 * (found[name] - 1) for name in names},
        all(ratio >= 1.1 for ratio in found.values()),
        f"Holds if both programs have at least 10% more faults with 64 colors than with one at 1 MB. {text}.",
    )


def _l8(data: Lf91Data) -> Claim:
    logs = [math.log(data.ratio(*cell)) for cell in _combinations()]
    mean = math.exp(sum(logs) / len(logs))
    return _claim(
        "L8",
        "Over a broad range of machines colored paging has no deleterious effect (§5).",
        {"geometric mean of the 20 ratios": mean, "largest ratio": math.exp(max(logs))},
        abs(mean - 1) <= 0.02,
        "Holds if the geometric mean of faults with 64 colors relative to one, over the 20 combinations with "
        f"8 MB and more, lies within 2% of 1. It is {mean:.4f}.",
    )
