"""Tests the rules of MB90's claims: on the paper's own numbers all hold, and each can fail."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from binhop.reproduce.mb90.claims import judge
from binhop.reproduce.mb90.data import Mb90Data
from binhop.reproduce.mb90.paper import DESIGNS, SWITCHES, WORKLOADS, Mb90Paper
from tests.made_up_switches import CURVES

SEEDS = range(4)
FIRST = {None: 1.2, "involuntary": 1.05, "system-call": 1.4, "page-fault": 1.3}
"""The private CPI of the first interval, relative to the later ones."""


def overheads() -> pl.DataFrame:
    """Returns the paper's Table 4, with a little luck of placement."""
    rows = []
    for design in DESIGNS:
        for workload in WORKLOADS:
            for number, trial in enumerate(Mb90Paper().of(design, workload)):
                for seed in SEEDS:
                    luck = 1 + 0.002 * (seed - 1.5)
                    rows.append(
                        {
                            "design": design,
                            "workload": workload,
                            "trial": number,
                            "seed": seed,
                            "drain": 1,
                            "switches": SWITCHES,
                            "document": luck * trial.cost,
                            "overhead_document": luck * float(trial.ratio) / 100,
                        }
                    )
    return pl.DataFrame(rows)


def curve(workload: str, cause: str | None, seed: int) -> list[tuple[Any, ...]]:
    """Returns a curve in which the excess dies away, and for client-server ends after 4,000 instructions."""
    server = workload == "client-server"
    interval = 1_000 if server else 10_000
    rows = []
    for number in range(20 if server else 40):
        excess = (0.04 if number < 4 else 0.0) if server else 0.12 * math.exp(-number / 15) * (1 + seed / 100)
        alive = 1000 - 20 * number
        ran = alive * interval
        private = round(1.1 * ran * (FIRST[cause] if number == 0 else 1))
        cycles = (private + round(excess * ran), private)
        key = ("1a", workload, "mb90-1a", seed, cause, interval, number)
        rows.append((*key, alive, alive, ran, *cycles, 0.0, 0.0, 0.0, 0, 0))
    return rows


def papers_data() -> Mb90Data:
    """Returns data with the paper's numbers, and curves like those of its figures."""
    names = [name for name in CURVES if name not in ("asid", "life")]
    rows = [
        row
        for workload in WORKLOADS
        for cause in FIRST
        for seed in SEEDS
        for row in curve(workload, cause, seed)
    ]
    order = ["design", "workload", "machine", "seed", *names[3:]]
    schema = {"design": pl.String} | {name: CURVES[name] for name in order[1:]}
    curves = pl.DataFrame(rows, schema=schema, orient="row").with_columns(trial=0, drain=1)
    empty = pl.DataFrame()
    facts = {"scale": "paper", "confidence": 0.95, "cycle_time_ns": dict.fromkeys(DESIGNS, 40.0)}
    return Mb90Data(overheads(), empty, empty, empty, curves, facts)


def verdicts(data: Mb90Data) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in judge(data)}


def test_on_the_papers_own_numbers_every_claim_holds() -> None:
    told = {claim.id: (claim.verdict, claim.how) for claim in judge(papers_data())}
    assert {name: how for name, (verdict, how) in told.items() if verdict != "holds"} == {}
    assert [*told] == ["M1", "M2", "M3", "M4", "M5", "M6"]


def changed(table: str, where: pl.Expr, **columns: pl.Expr) -> Mb90Data:
    data = papers_data()
    frame: pl.DataFrame = getattr(data, table)
    new = frame.with_columns(
        pl.when(where).then(value.cast(frame.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    )
    names = ("overheads", "causes", "levels", "caches", "curves")
    tables = {name: getattr(data, name) for name in names} | {table: new}
    return Mb90Data(**tables, provenance=data.provenance)


DESIGN, NAME, NUMBER = pl.col("design"), pl.col("workload"), pl.col("number")
RATIO, COST = pl.col("overhead_document"), pl.col("document")
SHARED, PRIVATE, RAN = pl.col("cycles_shared"), pl.col("cycles_private"), pl.col("instructions")
SERVER, TIMESHARING, COMPUTE = (name == NAME for name in ("client-server", "timesharing", "compute-bound"))


@pytest.mark.parametrize(
    ("failing", "table", "where", "columns"),
    [
        ({"M1"}, "overheads", COMPUTE & (DESIGN == "1a"), {"overhead_document": 2 * RATIO}),
        ({"M1"}, "overheads", COMPUTE & (DESIGN == "2b"), {"overhead_document": 2 * RATIO}),
        ({"M1"}, "overheads", SERVER & (DESIGN == "2a"), {"overhead_document": 3 * RATIO}),
        (
            {"M2"},
            "curves",
            (pl.col("cause") == "involuntary") & (NUMBER == 0),
            {"cycles_private": 1.2 * PRIVATE},
        ),
        ({"M2"}, "curves", (pl.col("cause") == "page-fault") & (NUMBER == 0), {"cycles_private": 1.15 * RAN}),
        ({"M3"}, "curves", SERVER & (NUMBER > 8), {"cycles_shared": PRIVATE + 0.01 * RAN}),
        ({"M3"}, "curves", TIMESHARING & (NUMBER >= 35), {"cycles_shared": PRIVATE - 1}),
        ({"M4"}, "overheads", TIMESHARING & (DESIGN == "2b"), {"overhead_document": 1.6 * RATIO}),
        ({"M4", "M1"}, "overheads", COMPUTE & (DESIGN == "2b"), {"overhead_document": 0.5 * RATIO}),
        ({"M5"}, "overheads", SERVER & (DESIGN == "1b"), {"document": 2 * COST}),
        ({"M5"}, "overheads", TIMESHARING & (DESIGN == "1a"), {"document": 4 * COST}),
        ({"M5"}, "overheads", TIMESHARING & (DESIGN == "2b"), {"document": 0.2 * COST}),
    ],
)
def test_each_claim_can_fail(
    failing: set[str], table: str, where: pl.Expr, columns: dict[str, pl.Expr]
) -> None:
    found = verdicts(changed(table, where, **columns))
    assert {name for name, verdict in found.items() if verdict == "fails"} == failing


def test_a_wide_interval_leaves_a_claim_undecided() -> None:
    luck = RATIO * (pl.col("seed") + 0.2)
    wide = changed("overheads", TIMESHARING & (DESIGN == "1b"), overhead_document=luck)
    found = verdicts(wide)
    assert found["M1"] == "undecided"


def test_claims_about_workloads_need_two_fifths_of_the_switches() -> None:
    short = changed("overheads", SERVER, switches=pl.lit(1_990))
    found = verdicts(short)
    assert found.pop("M6") == "holds"
    assert set(found.values()) == {"undecided"}
    enough = changed("overheads", SERVER, switches=pl.lit(2_001))
    assert set(verdicts(enough).values()) == {"holds"}


def test_without_segments_after_a_page_fault_m2_is_undecided() -> None:
    data = papers_data()
    curves = data.curves.filter(pl.col("cause").is_null() | (pl.col("cause") != "page-fault"))
    fewer = Mb90Data(data.overheads, data.causes, data.levels, data.caches, curves, data.provenance)
    assert verdicts(fewer)["M2"] == "undecided"
