"""Tests the study of MB90: the paper's numbers, the rules of the claims, and the page made anew."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import polars as pl
import pytest

from binhop.reproduce import claims as claim_files
from binhop.reproduce import mb90
from binhop.reproduce.mb90 import study
from binhop.reproduce.mb90.data import Mb90Data
from binhop.reproduce.mb90.page import shares_of_excess
from binhop.reproduce.mb90.paper import (
    DESIGNS,
    SWITCHES,
    WORKLOADS,
    Mb90Paper,
    expected,
    figure,
    rounded,
    trials,
)
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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


SHORT = study.StudyScale(40, trials=1, placements=2, further=1)
"""A scale of seconds."""


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the result of a run at a tenth of smoke scale."""
    out = tmp_path_factory.mktemp("mb90") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(study.SCALES, "smoke", SHORT)
        assert mb90.run("smoke", out) == out
    return out


def test_paper_scale_has_the_papers_trials() -> None:
    plan = study.jobs(study.SCALES["paper"])
    own = [job for job in plan if job.drain == 1 and not job.kernel]
    cells = [(design, job.workload) for job in own for design in job.designs]
    paper = Mb90Paper()
    assert sorted(cells) == sorted((trial.design, trial.workload) for trial in paper.trials)
    assert {job.placements for job in own} == {8}
    assert {job.switches for job in plan} == {SWITCHES}
    assert [job.workload for job in plan if job.drain != 1] == [*WORKLOADS]
    assert [job.workload for job in plan if job.kernel] == [*WORKLOADS]


def test_a_slow_drain_is_twice_as_slow_and_nothing_else() -> None:
    for design in DESIGNS:
        own, slow = (study.machine(design, drain).resolved().splitlines() for drain in (1, study.SLOW))
        different = [(a, b) for a, b in zip(own, slow, strict=True) if a != b]
        assert len(different) == 1
        before, after = (int(line.split("=")[1]) for line in different[0])
        assert after == 2 * before


def test_everything_is_there(smoke: Path) -> None:
    names = {path.name for path in smoke.iterdir()}
    figures = {f"figure-{number}.{kind}" for number in range(1, 10) for kind in ("png", "svg")}
    tables = {f"{name}.parquet" for name in study.TABLES}
    rest = {"report.md", "table-4.csv", "comparison.csv", "claims.json", "provenance.json", "run.json"}
    assert names == figures | tables | rest
    told = json.loads((smoke / "claims.json").read_text())
    assert [claim["id"] for claim in told] == [f"M{number}" for number in range(1, 7)]


def test_a_short_trial_decides_nothing_about_workloads(smoke: Path) -> None:
    for claim in claim_files.read(smoke):
        assert claim.verdict == ("holds" if claim.id == "M6" else "undecided")


def test_all_designs_of_a_trial_see_the_same_switches(smoke: Path) -> None:
    rows = Mb90Data.read(smoke).overheads.filter(drain=1)
    counts = rows.group_by("workload").agg(
        pl.col("switches").n_unique(), pl.col("instructions").n_unique(), designs=pl.col("design").n_unique()
    )
    assert counts.select("switches", "instructions", "designs").unique().rows() == [(1, 1, 4)]


def test_a_trial_ends_with_its_last_switch(smoke: Path) -> None:
    data = Mb90Data.read(smoke)
    for trial in data.provenance["trials"]:
        rows = data.overheads.filter(workload=trial["workload"], trial=trial["trial"])
        assert set(rows["switches"]) == {SHORT.switches + 1}, "the first event of a workload is a switch, too"
        assert 0 < trial["instructions"] - rows["executed"].min() < 1_000


def test_the_kernel_makes_other_figures_and_changes_no_claim(smoke: Path) -> None:
    data = Mb90Data.read(smoke)
    assert data.with_kernel.height == 12 * SHORT.further
    cell = data.with_kernel.filter(design="1a", workload="client-server").sort("seed")
    assert cell["cycles"].to_list() > data.of_trial("1a", "client-server", 0, "cycles").tolist()
    assert "With the kernel's references" in (smoke / "report.md").read_text()


def test_the_page_holds_every_trial_of_both(smoke: Path) -> None:
    page = (smoke / "report.md").read_text()
    table = pl.read_csv(smoke / "table-4.csv")
    assert table.filter(by="MB90").height == 25
    assert table.filter(by="binhop").height == 12
    for trial in ROWS:
        assert f"| {trial.design} | {trial.workload} | {trial.name} |" in page
    for link in re.findall(r"\((figure-\d\.png)\)", page):
        assert (smoke / link).exists()


def test_a_placement_with_little_excess_adds_little_to_shares() -> None:
    """The first placement has an excess of 1,000 cycles, and the second an excess of 10; a row may lack."""
    rows = pl.DataFrame(
        {
            "seed": [0, 0, 0, 1, 1],
            "level": ["l2", "memory", "write-buffer", "l2", "memory"],
            "kind": ["fetch", "data", None, "fetch", "data"],
            "excess": [900, 200, -100, 0, 10],
        }
    )
    found = shares_of_excess(rows, ["level", "kind"])
    means = {key: samples.mean() for key, samples in found.items()}
    assert means == {
        ("l2", "fetch"): pytest.approx(900 / 1_110),
        ("memory", "data"): pytest.approx(210 / 1_110),
        ("write-buffer", None): pytest.approx(-100 / 1_110),
    }
    assert sum(means.values()) == pytest.approx(1_010 / 1_110)


def test_without_excess_there_are_no_shares() -> None:
    rows = pl.DataFrame({"seed": [0, 1], "cause": ["page-fault"] * 2, "excess": [5, -5]})
    assert shares_of_excess(rows, ["cause"]) == {}


def test_the_page_is_redrawn_from_the_tables_alone(smoke: Path, tmp_path: Path) -> None:
    for name in (*(f"{table}.parquet" for table in study.TABLES), "provenance.json"):
        (tmp_path / name).write_bytes((smoke / name).read_bytes())
    for made in mb90.report(tmp_path):
        assert made.read_bytes() == (smoke / made.name).read_bytes(), made.name


@pytest.mark.long  # test_kept_runs.py and test_lf91.py have the short form.
def test_a_stopped_study_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, smoke: Path) -> None:
    whole = study.switching.switches_all
    runs: list[str] = []
    stop = ["client-server"]

    def counted(machines: object, trace: object, **options: object) -> object:
        if trace.name in stop:
            raise KeyboardInterrupt
        runs.append(trace.name)
        return whole(machines, trace, **options)

    monkeypatch.setattr(study.switching, "switches_all", counted)
    monkeypatch.setitem(study.SCALES, "smoke", SHORT)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        mb90.run("smoke", out)
    assert runs == ["timesharing", "compute-bound"]
    stop.clear()
    mb90.run("smoke", out)
    assert runs == 3 * [*WORKLOADS]
    assert [*tmp_path.iterdir()] == [out], "what was kept goes when all is finished"
    for made in smoke.iterdir():
        if made.name != "run.json":
            assert (out / made.name).read_bytes() == made.read_bytes(), made.name
