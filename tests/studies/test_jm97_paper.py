"""Tests JM97's own figures: they are those of the document, and its fixed arithmetic holds exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from binhop.reproduce.jm97.paper import (
    EVENTS,
    TOTAL,
    WEIGHTED,
    Cause,
    causes,
    column,
    exact,
    modification_cpi,
    modification_cycles,
    modifications_weighted,
    of_total,
    printed,
    with_write_backs,
)
from tests.conftest import ROOT

SEED = ROOT.parent / "shared" / "seeds" / "002_8eda894b7c50048f.txt"


def places(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), rounding="ROUND_HALF_UP")


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.name)
def test_each_row_of_table_4_is_its_frequency_times_its_penalty(cause: Cause) -> None:
    assert cause.recomputed == cause.cpi


def test_the_seven_rows_of_table_4_sum_to_the_total_exactly() -> None:
    assert len(causes()) == 7
    assert sum(cause.cpi for cause in causes()) == Decimal("0.096950") == exact("Table 4", TOTAL, "cpi")
    assert places(exact("Table 4", TOTAL, "cpi"), 3) == exact("Table 3", "gcc", "cpi")


def test_a_change_of_protection_costs_6908_cycles() -> None:
    assert 10 * 5 + 246 * 3 + 50 * 40 + 206 * 20 == 6908 == modification_cycles()
    assert exact("text", "modification", "cycles") == modification_cycles()


def test_changes_of_protection_cost_19_to_164_thousandths_of_a_cycle() -> None:
    rates, _ = of_total(column("Table 5", "per-million-instructions"))
    assert (min(rates.values()), max(rates.values())) == (Decimal("2.8"), Decimal("23.8"))
    assert modification_cpi(Decimal("2.8")) == Decimal("0.0193424")
    assert modification_cpi(Decimal("23.8")) == Decimal("0.1644104")
    assert places(modification_cpi(Decimal("2.8")), 3) == exact("text", "modification", "least-cpi")
    assert places(modification_cpi(Decimal("23.8")), 3) == exact("text", "modification", "most-cpi")


def test_table_5_s_average_is_weighted_by_instructions() -> None:
    found = modifications_weighted()
    assert round(float(found), 4) == 11.2773
    assert Fraction("11.25") <= found < Fraction("11.35"), "11.3 to the printed digit"
    assert printed("Table 5", WEIGHTED, "per-million-instructions") == "11.3"
    rates, _ = of_total(column("Table 5", "per-million-instructions"))
    assert places(sum(rates.values(), Decimal()) / len(rates), 1) == Decimal("13.2"), "not the plain mean"


def test_table_3_s_average_is_not_the_plain_mean() -> None:
    """The document prints no weights, so only the plain mean can be computed."""
    rows, weighted = of_total(column("Table 3", "cpi"))
    assert sum(rows.values()) / len(rows) == Decimal("0.030875")
    assert weighted == Decimal("0.033")
    assert min(rows.values()) < weighted < max(rows.values())


def test_write_backs_make_33_thousandths_50() -> None:
    assert with_write_backs() == Decimal("0.0495")
    assert places(with_write_backs(), 3) == exact("text", "write-backs", "cpi") == Decimal("0.050")


def test_the_figures_are_those_of_the_document() -> None:
    if not SEED.exists():
        pytest.skip("the document is not here")
    text = SEED.read_text()
    rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
    table_1 = [row for row in rows if row[0].startswith(("L1 hit", "L1 m")) and row[1].endswith("%")]
    for side, at in (("fetch", 1), ("data", 2)):
        assert [row[at].rstrip("%") for row in table_1] == [
            str(value) for value in column("Table 1", "percent", side).values()
        ]
    for system, cpi in column("Table 2", "cpi").items():
        share = printed("Table 2", system, "percent-of-time")
        assert any(row[:3] == [system, f"{share}%", str(cpi)] for row in rows)
    scanned = {"ijpeg": "ljpeg", "IOzone": "lOzone", "weighted average": "Weighted Average:", "li": "li –"}
    for program, cpi in column("Table 3", "cpi").items():
        assert [scanned.get(program, program), str(cpi)] in rows
    table_4 = [row for row in rows if len(row) == 4 and row[2].endswith(" cycles")]
    assert [row[1:] for row in table_4] == [
        [str(cause.frequency), f"{cause.penalty} cycles", str(cause.cpi)] for cause in causes()
    ]
    counts = column("Table 5", "modifications")
    for workload, rate in of_total(column("Table 5", "per-million-instructions"))[0].items():
        assert [scanned.get(workload, workload), str(counts[workload]), str(rate)] in rows
    for words in (
        "1 cycle to access the L1 cache, 20 cycles to access the L2 cache, and 90 cycles",
        "L1 cache lines can be checked in 3 cycles and updated in 5 cycles",
        "L2 cache lines can be checked in 20 cycles and updated in 40 cycles",
        "average of 10 L1 cache lines and 50 L2 caches lines",
        "6908 cycles per page-protection modification",
        "between 0.019 and 0.164 CPI",
        "from 0.033 CPI to 0.050 CPI",
    ):
        assert words in text
    assert len(EVENTS) == 7
