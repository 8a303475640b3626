"""Tests the study of JM97: its plan, its programs, the files of a run, and the page made anew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from binhop.errors import RequestError
from binhop.reproduce import PAPERS, jm97
from binhop.reproduce.jm97 import study
from binhop.reproduce.jm97.data import SIDES, Jm97Data, events
from binhop.reproduce.jm97.designs import DESIGNS, JM97, KEPT, KIB, MODERN, REFERENCE, TABLE, machine
from binhop.reproduce.jm97.paper import EVENTS
from binhop.reproduce.jm97.programs import BUILT_IN, missing, suite

if TYPE_CHECKING:
    from pathlib import Path

SHORT = study.Jm97Scale(
    300_000, 2, 100_000, (128 * KIB, 8 * study.MIB), 100_000, (KIB, 8 * KIB, 128 * KIB), study.EQUAL
)
"""A scale of seconds."""
OF_MULT2 = (pl.col("kind") == study.OF_DESIGNS) & (pl.col("program") == "mult2") & (pl.col("design") == KEPT)
"""The counts of mult2 with software that keeps translations."""


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("jm97") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(study.SCALES, "smoke", SHORT)
        assert jm97.run("smoke", out) == out
    return out


def test_paper_scale_has_the_documents_sweep() -> None:
    plan = study.jobs(study.SCALES["paper"], suite(None))
    tables = [job for job in plan if job.kind == study.OF_DESIGNS]
    assert {job.references for job in tables} == {200_000_000}
    caches = [job for job in plan if job.kind == study.OF_CACHES]
    assert {job.program.stands_for for job in caches} == {"gcc", "vortex"}
    assert {job.references for job in caches} == {1_000_000_000}
    assert len(caches) == 2 * 10, "one run for each program and pair of lines"
    assert {len(job.cells) for job in caches} == {8 * 2}
    assert all(own.line_1 <= own.line_2 for job in caches for _, own in job.cells)


def test_all_designs_have_the_same_caches_and_costs() -> None:
    def parts(design: str) -> list[str]:
        sections = machine(design).resolved().split("\n\n")
        return [part for part in sections if part.startswith(("[cache", "[cost"))]

    assert all(parts(design) == parts(JM97) for design in DESIGNS)
    assert all("active = true" in machine(design).resolved() for design in DESIGNS)
    assert "[tlb." not in machine(KEPT).resolved()
    assert machine(MODERN).resolved().count("[tlb.") == 3


def test_recordings_replace_built_in_programs_of_the_same_kind(tmp_path: Path) -> None:
    for name in ("gcc", "perl", "python3", "sort", "notes"):
        (tmp_path / f"{name}.parquet").touch()
    names = [one.name for one in suite(tmp_path)]
    assert names == ["tree", "client-server", "perl", "tv", "gcc", "sort"]
    assert missing(suite(tmp_path)) == missing(BUILT_IN) == ["m88ksim", "go", "ijpeg"]


def test_a_directory_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"gcc\.parquet"):
        PAPERS["jm97"].run("smoke", tmp_path / "out", recordings=tmp_path)
    with pytest.raises(RequestError, match="built-in workloads alone"):
        PAPERS["mb90"].run("smoke", tmp_path / "out", recordings=tmp_path)


def test_everything_is_there(smoke: Path) -> None:
    figures = {
        f"{stem}.{kind}"
        for stem in ("figure-8a", "figure-8b", "causes", "last-levels")
        for kind in ("png", "svg")
    }
    tables = {
        f"{stem}.csv" for stem in ("table-1", "table-3", "table-4", "table-5", "figure-8", "last-levels")
    }
    rest = {"report.md", "counts.parquet", "claims.json", "provenance.json", "run.json"}
    assert {path.name for path in smoke.iterdir()} == figures | tables | rest
    told = json.loads((smoke / "claims.json").read_text())
    assert [(claim["id"], claim["verdict"]) for claim in told] == [
        (f"J{number}", "undecided") for number in range(1, 7)
    ]


def test_the_causes_are_all_of_the_overhead(smoke: Path) -> None:
    data = Jm97Data.read(smoke)
    for program in data.programs:
        for design, causes in ((KEPT, [*EVENTS]), (TABLE, [*EVENTS, "write-back"])):
            for counts in data.runs(program, design):
                parts = sum(counts[f"translation.cycles.{cause}"] for cause in causes)
                assert parts == counts["translation.cycles"]


def test_the_six_events_are_all_accesses(smoke: Path) -> None:
    data = Jm97Data.read(smoke)
    for program in data.programs:
        for side in SIDES:
            shares = events(data.runs(program, JM97), side)
            assert len(shares) == 6
            assert sum(shares.values()) == pytest.approx(1)
            assert min(shares.values()) >= 0


def test_table_4_is_frequency_times_penalty(smoke: Path) -> None:
    rows = pl.read_csv(smoke / "table-4.csv")
    assert rows["cause"].to_list() == [*EVENTS]
    data = Jm97Data.read(smoke)
    assert rows["overhead"].sum() == pytest.approx(data.overhead("mult2", KEPT, caches=REFERENCE))
    for row in rows.iter_rows(named=True):
        assert row["frequency"] * row["penalty"] == pytest.approx(row["overhead"], abs=1e-6)


def test_changes_of_protection_are_those_of_each_program(smoke: Path, tmp_path: Path) -> None:
    rows = pl.read_csv(smoke / "table-5.csv")
    assert rows["program"].to_list() == [*Jm97Data.read(smoke).programs, "weighted"]
    assert rows["changes_per_million"].sum() == 0, "built-in workloads change no protection"
    counts = pl.read_parquet(smoke / "counts.parquet")
    (instructions,) = set(counts.filter(OF_MULT2, metric="instructions")["value"])
    made = {"changes": 3.0, "pages": 4.0, "level-1.updated": 30.0, "level-2.updated": 200.0, "cycles": 2763.0}
    changed = counts.filter(OF_MULT2, metric="instructions")
    parts = [
        changed.with_columns(metric=pl.lit(f"translation.protection.{name}"), value=pl.lit(value))
        for name, value in made.items()
    ]
    none = counts.filter(~(OF_MULT2 & pl.col("metric").str.starts_with("translation.protection.")))
    pl.concat([none, *parts]).write_parquet(tmp_path / "counts.parquet")
    (tmp_path / "provenance.json").write_bytes((smoke / "provenance.json").read_bytes())
    jm97.report(tmp_path)
    (row,) = pl.read_csv(tmp_path / "table-5.csv").filter(program="mult2").rows(named=True)
    assert row["changes_per_million"] == pytest.approx(3e6 / instructions)
    assert (row["level_1_lines"], row["level_2_lines"], row["paper_per_million"]) == (7.5, 50, 22.3)
    assert row["overhead"] == pytest.approx(2763 / instructions, abs=1e-8)


def test_counts_without_changes_of_protection_show_none(smoke: Path, tmp_path: Path) -> None:
    counts = pl.read_parquet(smoke / "counts.parquet")
    lacking = OF_MULT2 & pl.col("metric").str.starts_with("translation.protection.")
    counts.filter(~lacking).write_parquet(tmp_path / "counts.parquet")
    (tmp_path / "provenance.json").write_bytes((smoke / "provenance.json").read_bytes())
    jm97.report(tmp_path)
    measured = ("changes_per_million", "pages_per_million", "level_1_lines", "level_2_lines", "overhead")
    for row in pl.read_csv(tmp_path / "table-5.csv").rows(named=True):
        if row["program"] in ("mult2", "weighted"):
            assert [row[name] for name in measured] == [None] * 5, row
        else:
            assert (row["changes_per_million"], row["overhead"]) == (0, 0), row
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    (shown,) = (line for line in page.splitlines() if line.startswith("| weighted | -"))
    assert [cell.strip() for cell in shown.split("|")[1:-1]] == ["weighted", *"-----", "11.3"]


def test_the_page_is_redrawn_from_the_counts_alone(smoke: Path, tmp_path: Path) -> None:
    for name in ("counts.parquet", "provenance.json"):
        (tmp_path / name).write_bytes((smoke / name).read_bytes())
    for made in jm97.report(tmp_path):
        assert made.read_bytes() == (smoke / made.name).read_bytes(), made.name
