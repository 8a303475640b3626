"""Judges JM97's claims, each by its own rule.

All caches are virtual, so the placements of the program's pages hardly matter: most intervals have no width.
The overhead without write-backs is that of caches which keep each line's translation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.reproduce.claims import Claim
from binhop.reproduce.jm97.data import SIDES, events
from binhop.reproduce.jm97.designs import JM97, KEPT, KIB, REFERENCE, Organization
from binhop.reproduce.jm97.paper import exact
from binhop.reproduce.jm97.programs import FIGURE_8
from binhop.reproduce.jm97.study import (
    EQUAL,
    LEVELS_1,
    LEVELS_2,
    OF_CACHES,
    OF_DESIGNS,
    OF_LAST_LEVELS,
    SCALES,
)
from binhop.reproduce.judge import Condition, Measure, positive, verdict, with_conditions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binhop.reproduce.jm97.data import Jm97Data

MOST = 0.05
"""J1: the most that the overhead of the suite may be, in cycles per instruction."""
DOUBLED, OTHERWISE = 5.0, 1.5
"""J2: the least factors by which doubling level 2 divides the overhead."""
LEVEL_1 = (2.0, 5.0)
"""J2: the factors by which level 1 of 128 KiB divides the overhead of level 1 of 1 KiB."""
BY_LINES = 2.0
"""J3: the least factor between the best and the worst lines at some size of the caches."""
RARE = 10
"""J4: rare means at most so many times the document's frequency."""
BEST = 0.01
"""J6: what the best organization must cost less than, in cycles per instruction."""
PART = 0.2
"""The share of the paper scale's references below which a claim about programs is undecided."""


def judge(data: Jm97Data) -> list[Claim]:
    """Returns the claims J1 to J6, judged."""
    rules = {
        _j1: OF_DESIGNS,
        _j2: OF_CACHES,
        _j3: OF_CACHES,
        _j4: OF_DESIGNS,
        _j5: OF_LAST_LEVELS,
        _j6: OF_CACHES,
    }
    found = []
    for rule, kind in rules.items():
        claim, short = rule(data), _too_short(data, kind)
        found.append(claim if short is None else claim.undecided(short))
    return found


def _too_short(data: Jm97Data, kind: str) -> str | None:
    """Returns why the runs of a kind are too short for a verdict; None if they are long enough."""
    paper = SCALES["paper"]
    whole = {
        OF_DESIGNS: paper.references,
        OF_LAST_LEVELS: paper.last_references,
        OF_CACHES: paper.cache_references,
    }[kind]
    least = data.least_references(kind)
    # A run ends before the row that would exceed its length, so it may lack a few references.
    if least >= 0.999 * PART * whole:
        return None
    return (
        f"Undecided: the shortest of these runs has {least:,.0f} references; a verdict needs "
        f"{PART * whole:,.0f}, and paper scale has {whole:,}."
    )


def _claim(
    name: str,
    statement: str,
    measured: Mapping[str, float | None],
    interval: Mapping[str, tuple[float, float]] | None,
    rule: str,
    conditions: Sequence[Condition],
) -> Claim:
    return Claim(name, statement, measured, interval, verdict(conditions), with_conditions(rule, conditions))


def _j1(data: Jm97Data) -> Claim:
    suite = data.measure(data.programs, KEPT)
    spare = Measure(MOST - suite.mean, MOST - suite.high, MOST - suite.low, suite.n)
    each = {program: data.overhead(program, KEPT) for program in data.programs}
    mips = data.measure(data.programs, JM97).mean
    return _claim(
        "J1",
        f"Over a suite of integer programs, software at cache misses costs at most {MOST} cycles per "
        "instruction without write-backs (8 + 8 KiB, 512 + 512 KiB, lines of 16 bytes; the document: 0.033).",
        {"weighted CPI": suite.mean, f"of {JM97} on the same programs": mips, **each},
        {"weighted CPI": suite.interval},
        f"Holds if the overhead of all programs together, weighted by instructions, is at most {MOST}.",
        [positive(f"{MOST} less the overhead", spare)],
    )


def _factor(data: Jm97Data, program: str, small: Organization, large: Organization) -> float:
    overhead = data.sweep[program]
    return overhead[small] / overhead[large]


def _j2(data: Jm97Data) -> Claim:
    small, large = LEVELS_2
    measured: dict[str, float | None] = {}
    conditions = []
    for program in data.sweep:
        doubled = _factor(data, program, REFERENCE, Organization(level_2=large))
        between = data.between(program)
        least = DOUBLED if between else OTHERWISE
        where = "lies between the two sizes" if between else "does not lie between the two sizes"
        text = f"{program}, whose working set {where}: level 2 of 1 MiB divides the overhead by {doubled:.2f}"
        conditions.append(Condition(f"{text}, at least {least:g}", doubled >= least))
        level_1 = _factor(
            data, program, Organization(level_1=LEVELS_1[0]), Organization(level_1=LEVELS_1[-1])
        )
        low, high = LEVEL_1
        text = f"{program}: level 1 of 128 KiB divides the overhead of 1 KiB by {level_1:.2f}"
        conditions.append(Condition(f"{text}, from {low:g} to {high:g}", low <= level_1 <= high))
        measured |= {f"{program} level 2": doubled, f"{program} level 1": level_1}
    return _claim(
        "J2",
        "Doubling level 2 divides the overhead by about 10 (gcc) or 2 (vortex). Level 1 from 1 to 128 KiB a "
        "side divides it by about 3 (§5.5).",
        measured,
        None,
        f"Lines of 16 bytes; level 2 at a level 1 of 8 KiB, and level 1 at a level 2 of {small // KIB} KiB. "
        f"Holds if a doubled level 2 divides the overhead by at least {DOUBLED:g} for a program whose "
        f"working set lies between the two sizes, and by at least {OTHERWISE:g} for another, and level 1 "
        f"divides it by {LEVEL_1[0]:g} to {LEVEL_1[1]:g}. A working set fits into a level 2 that has at most "
        "one repeated miss for each first miss on a line.",
        conditions,
    )


def _j3(data: Jm97Data) -> Claim:
    measured: dict[str, float | None] = {}
    conditions = []
    gcc = data.program_of(FIGURE_8[0])
    for program, overhead in data.sweep.items():
        by_sizes: dict[tuple[int, int], list[float]] = {}
        for caches, value in overhead.items():
            by_sizes.setdefault((caches.level_1, caches.level_2), []).append(value)
        factors = {sizes: max(values) / min(values) for sizes, values in by_sizes.items()}
        sizes, most = max(factors.items(), key=lambda item: item[1])
        measured[f"{program} most"] = most
        text = f"{program}: lines change the overhead by {most:.2f} at {_sizes(*sizes)}"
        conditions.append(Condition(f"{text}, at least {BY_LINES:g}", most >= BY_LINES))
        if program == gcc:
            means = {line: _mean_of_lines(overhead, line) for line, _ in EQUAL}
            measured |= {f"{program}, {line} bytes": value for line, value in means.items()}
            best = min(means, key=lambda line: means[line])
            inside = best not in (min(means), max(means))
            text = f"{program}: lines of {best} bytes are best, neither the smallest nor the largest"
            conditions.append(Condition(text, inside))
    return _claim(
        "J3",
        "The size of lines changes the overhead by 2 times or more at some size of the caches, up to 10 "
        "times. For gcc neither the smallest nor the largest line is best (§5.5).",
        measured,
        None,
        f"Holds if the worst lines cost at least {BY_LINES:g} times the best at some size, for each program. "
        "The best line for gcc is that with the least mean overhead over all sizes of the caches, with equal "
        "lines in both levels.",
        conditions,
    )


def _mean_of_lines(overhead: Mapping[Organization, float], line: int) -> float:
    """Returns the mean overhead over all sizes of the caches, with lines of this size in both levels."""
    found = [value for caches, value in overhead.items() if (caches.line_1, caches.line_2) == (line, line)]
    return sum(found) / len(found)


def _sizes(level_1: int, level_2: int) -> str:
    return f"{level_1 // KIB} and {level_2 // KIB} KiB"


def _j4(data: Jm97Data) -> Claim:
    measured: dict[str, float | None] = {}
    conditions = []
    runs = [counts for program in data.programs for counts in data.runs(program, JM97)]
    for side in SIDES:
        share = 100 * events(runs, side)["level-1", "miss"]
        theirs = float(exact("Table 1", "level-1 miss", "percent", side))
        measured[f"{side}, %"] = share
        conditions.append(Condition(f"{side}: {share:.4g}% is not zero", share > 0))
        limit = RARE * theirs
        conditions.append(Condition(f"{side}: {share:.4g}% is at most {limit:g}%", share <= limit))
    return _claim(
        "J4",
        "An access that hits in level 1 and misses in the TLB is rare, but not zero (Table 1: 0.01% of the "
        "fetches, 0.06% of the loads and stores).",
        measured,
        None,
        f"The events of all programs together on `{JM97}`. Rare means at most {RARE} times the document's "
        "frequency.",
        conditions,
    )


def _j5(data: Jm97Data) -> Claim:
    measured: dict[str, float | None] = {}
    intervals = {}
    conditions = []
    largest = data.last_levels[-1]
    for program in data.programs:
        size = data.crossover(program, KEPT, JM97)
        measured[f"{program}, KiB"] = None if size is None else size / KIB
        saved = data.saved(program, KEPT, JM97, largest)
        intervals[f"{program}, saved at {largest // KIB} KiB"] = saved.interval
        conditions.append(positive(f"{program}: CPI saved at {largest // KIB} KiB", saved))
    return _claim(
        "J5",
        "From some size of the last level on, software at cache misses costs less than the document's TLB "
        "(binhop's own question).",
        measured,
        intervals,
        f"The overhead with the translation kept in lines, against `{JM97}`, by the differences placement by "
        "placement. Measured is the size a side from which on software costs less at every larger size; - "
        f"means that it never does. Holds if each program has such a size, up to {largest // KIB} KiB. The "
        "page has all designs.",
        conditions,
    )


def _j6(data: Jm97Data) -> Claim:
    measured: dict[str, float | None] = {}
    conditions = []
    for program, overhead in data.sweep.items():
        caches, least = min(overhead.items(), key=lambda item: item[1])
        measured[program] = least
        text = f"{program}: {least:.4f} at {_sizes(caches.level_1, caches.level_2)}"
        lines = f"lines of {caches.line_1} and {caches.line_2} bytes"
        conditions.append(Condition(f"{text}, {lines}, is below {BEST:g}", least < BEST))
    return _claim(
        "J6",
        f"The best organization costs less than {BEST:g} cycles per instruction (§5.5).",
        measured,
        None,
        "Holds if this is so for each program of Figure 8, over the simulated organizations.",
        conditions,
    )
