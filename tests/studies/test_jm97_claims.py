"""Tests the rules of JM97's claims: on figures like the document's all hold, and each can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import polars as pl
import pytest

from binhop.reproduce.jm97 import study
from binhop.reproduce.jm97.claims import judge
from binhop.reproduce.jm97.data import LEVELS, Counts, Jm97Data
from binhop.reproduce.jm97.designs import JM97, KEPT, KIB, SOFTVM, Organization
from binhop.reproduce.jm97.programs import BUILT_IN, suite

INSTRUCTIONS = 1e9
BY_LINE = {16: 3.0, 32: 1.0, 64: 1.2, 128: 2.0}
BY_LEVEL_1 = {1: 1.7, 8: 1.0, 128: 0.5}
SCALE = study.Jm97Scale(1, 2, 1, study.LAST_LEVELS, 1, tuple(KIB * kib for kib in BY_LEVEL_1), study.EQUAL)

Rule = Callable[[str, str, str, Organization, Counts], None]
"""Changes the counts of a cell: job's kind, program, design, caches."""


def overhead(design: str, caches: Organization) -> float:
    """Returns an overhead like the document's, which falls as the caches grow."""
    if design not in SOFTVM:
        return 0.02
    by_level_2 = 0.1 if caches.level_2 >= study.MIB else 1.0
    return 0.01 * by_level_2 * BY_LEVEL_1[caches.level_1 // KIB] * BY_LINE[caches.line_1]


UNCOUNTED = (
    *("l1d.store.accesses", "l1d.store.misses", "memory.store.accesses"),
    *(f"l2{side}.{what}" for side in ("i.fetch", "d.load", "d.store") for what in ("misses", "compulsory")),
    *(f"translation.{kind}.tlb-miss.{level}" for kind in ("fetch", "load", "store") for level in LEVELS),
)
"""The counts that are 0 unless a cell says otherwise. A run of a machine with a TLB has every one of them."""


def made_up(rule: Rule | None = None) -> Jm97Data:
    """Returns data in which all claims hold, changed by a rule."""
    paper = study.SCALES["paper"]
    references = {
        study.OF_DESIGNS: paper.references,
        study.OF_LAST_LEVELS: paper.last_references,
        study.OF_CACHES: paper.cache_references,
    }
    rows = []
    for job in study.jobs(SCALE, suite(None)):
        for design, caches in job.cells:
            for seed in range(job.placements):
                counts: Counts = {
                    **dict.fromkeys(UNCOUNTED, 0.0),
                    "instructions": INSTRUCTIONS,
                    "references": references[job.kind],
                    "translation.cycles": INSTRUCTIONS * overhead(design, caches),
                    "cycles": 2 * INSTRUCTIONS,
                    "l1i.fetch.accesses": 1e6,
                    "l1i.fetch.misses": 3e4,
                    "l1d.load.accesses": 1e6,
                    "l1d.load.misses": 4e4,
                    "memory.fetch.accesses": 100.0,
                    "memory.load.accesses": 1_000.0,
                    "translation.fetch.tlb-miss.level-1": 100.0,
                    "translation.load.tlb-miss.level-1": 600.0,
                    "l2d.load.misses": 300.0 if caches.level_2 < study.MIB else 150.0,
                    "l2d.load.compulsory": 100.0,
                }
                if rule is not None:
                    rule(job.kind, job.program.name, design, caches, counts)
                key = (job.kind, job.program.name, design, *asdict(caches).values(), seed)
                rows += [(*key, metric, float(value)) for metric, value in counts.items()]
    names = ["kind", "program", "design", *asdict(Organization()), "seed", "metric", "value"]
    programs = [{"name": one.name, "stands_for": one.stands_for} for one in suite(None)]
    facts = {"scale": "paper", "confidence": 0.95, "programs": programs}
    return Jm97Data(pl.DataFrame(rows, schema=names, orient="row"), facts)


def verdicts(data: Jm97Data) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in judge(data)}


def times(factor: float, where: Callable[[str, str, str, Organization], bool]) -> Rule:
    """Returns a rule that multiplies the overhead of some cells."""

    def rule(kind: str, program: str, design: str, caches: Organization, counts: Counts) -> None:
        if where(kind, program, design, caches):
            counts["translation.cycles"] *= factor

    return rule


def set_to(metric: str, value: float, kind: str) -> Rule:
    """Returns a rule that sets a metric in all runs of a kind."""

    def rule(own: str, program: str, design: str, caches: Organization, counts: Counts) -> None:
        if own == kind:
            counts[metric] = value

    return rule


def test_on_figures_like_the_documents_every_claim_holds() -> None:
    told = {claim.id: (claim.verdict, claim.how) for claim in judge(made_up())}
    assert {name: how for name, (verdict, how) in told.items() if verdict != "holds"} == {}
    assert [*told] == ["J1", "J2", "J3", "J4", "J5", "J6"]


CACHES, DESIGNS, LAST = study.OF_CACHES, study.OF_DESIGNS, study.OF_LAST_LEVELS


@pytest.mark.parametrize(
    ("failing", "rule"),
    [
        ("J1", times(2, lambda kind, *_: kind == DESIGNS)),
        ("J2", times(3, lambda kind, _p, _d, caches: kind == CACHES and caches.level_2 == study.MIB)),
        ("J2", times(2, lambda kind, _p, _d, caches: kind == CACHES and caches.level_1 == KIB)),
        (
            "J3",
            times(0.3, lambda kind, program, _d, caches: kind == CACHES and caches.line_1 == 16),
        ),
        ("J4", set_to("translation.fetch.tlb-miss.level-1", 0.0, DESIGNS)),
        ("J4", set_to("translation.load.tlb-miss.level-1", 6_100.0, DESIGNS)),
        ("J5", times(25, lambda kind, program, design, _c: (kind, program, design) == (LAST, "tv", KEPT))),
        ("J6", times(30, lambda kind, program, *_: kind == CACHES and program == "tv")),
    ],
)
def test_each_claim_can_fail(failing: str, rule: Rule) -> None:
    found = verdicts(made_up(rule))
    assert {name for name, verdict in found.items() if verdict != "holds"} == {failing}


def test_a_program_whose_working_set_fits_needs_less_of_level_2() -> None:
    def rule(kind: str, program: str, design: str, caches: Organization, counts: Counts) -> None:
        counts["l2d.load.misses"] = 150.0
        if kind == CACHES and caches.level_2 == study.MIB:
            counts["translation.cycles"] *= 5

    assert verdicts(made_up(rule))["J2"] == "holds", "2 times are enough"


def test_a_run_below_a_fifth_of_paper_scale_decides_nothing() -> None:
    found = verdicts(made_up(set_to("references", 190_000_000, CACHES)))
    assert {name for name, verdict in found.items() if verdict == "undecided"} == {"J2", "J3", "J6"}


def test_the_crossover_is_the_least_size_from_which_software_stays_ahead() -> None:
    def rule(kind: str, program: str, design: str, caches: Organization, counts: Counts) -> None:
        if (kind, program, design) == (LAST, "tv", KEPT):
            ahead = caches.level_2 >= 2 * study.MIB or caches.level_2 == 256 * KIB
            counts["translation.cycles"] = INSTRUCTIONS * (0.01 if ahead else 0.03)

    assert made_up(rule).crossover("tv", KEPT, JM97) == 2 * study.MIB
    assert {one.name for one in BUILT_IN} == {*made_up().programs}
