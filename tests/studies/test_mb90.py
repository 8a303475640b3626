"""Tests the study of MB90: the paper's numbers, the rules of the claims, and the page made anew."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from binhop.reproduce.mb90.paper import DESIGNS, WORKLOADS, Mb90Paper, expected, figure, rounded, trials
from tests.conftest import ROOT

SEED = ROOT.parent / "shared" / "seeds" / "003_c9d1f707ccf096e3.txt"
ROWS = [*trials()]


@pytest.mark.parametrize("trial", ROWS, ids=lambda trial: trial.name)
def test_the_ratio_of_each_row_follows_from_its_other_columns(trial: object) -> None:
    """M6, and every row to the printed digit. The ratio of F1 is 3.25 exactly: halves are rounded up."""
    assert trial.recomputed == trial.ratio
    if trial.name == "F1":
        assert trial.exact == Fraction(13, 4)


def test_a_half_is_rounded_up_and_less_is_not() -> None:
    assert rounded(Fraction(325, 100), 1) == "3.3"
    assert rounded(Fraction(335, 100), 1) == "3.4"
    assert rounded(Fraction(3249999999, 10**9), 1) == "3.2"
    assert rounded(Fraction(2), 1) == "2.0"


def test_every_cell_has_its_trials() -> None:
    paper = Mb90Paper()
    counts = {(design, name): len(paper.of(design, name)) for design in DESIGNS for name in WORKLOADS}
    assert sum(counts.values()) == 25
    assert {cell for cell, count in counts.items() if count != 2} == {("1b", "compute-bound")}
    assert counts["1b", "compute-bound"] == 3
    assert paper.overhead("2b", "compute-bound") == pytest.approx(0.0195)
    assert paper.cost("1a", "timesharing") == 10_150


def test_the_papers_numbers_are_those_of_the_paper() -> None:
    if not SEED.exists():
        pytest.skip("the paper is not here")
    text = SEED.read_text()
    lines = [line.split("\t") for line in text.splitlines()]
    rows = [line for line in lines if len(line) == 8 and line[1].startswith("Design ")]
    assert len(rows) == 25
    for row, trial in zip(rows, ROWS, strict=True):
        typed = [trial.name, f"Design {trial.design}", f"<i>{trial.workload.title()}</i>"]
        typed[2] = typed[2].replace("-Bound", "-bound")
        typed += [f"${trial.instructions} * 10^6$", f"${trial.references} * 10^6$", f"{trial.cost} cycles"]
        assert [*typed, f"${trial.cycles} * 10^6$", f"{trial.ratio}%"] == row
    told = {
        ("kernel-switch-us", "about 70 microseconds"),
        ("least-kernel-switch-us", "at 7.4 microseconds"),
        ("packet-exchange-us", "in about 130 microseconds"),
        ("quantum-cycles", "about 400,000 cycles"),
        ("processes", "averaging 85"),
        ("instructions-until-flat", "flat after 4000 instructions"),
        ("cycle-time-ns", "cycle time of 40 nSec"),
    }
    for quantity, words in told:
        assert words in text
        assert figure(quantity) == float(re.search(r"[\d.,]*\d", words)[0].replace(",", ""))
    for name in WORKLOADS:
        size = f"{figure('size-1e6-bytes', name):g} Mb"
        assert any(size in line for line in lines if f"<i>{name}</i>" in line[0].lower())
    assert expected()["table"].unique().sort().to_list() == [
        "Table 1",
        "Table 2",
        "Table 3",
        "Table 4",
        "text",
    ]
