"""Tests the KH90 study: its transcription of the paper, and the whole study at a tiny scale."""

from __future__ import annotations

import json
import re
import shutil
from itertools import product
from typing import TYPE_CHECKING

import polars as pl
import pytest

from binhop import cli, study
from binhop.reproduce import PAPERS, kh90
from binhop.reproduce.kh90.data import HEURISTICS, SIZES, WAYS, WORKLOADS, Kh90Paper, expected
from tests.conftest import ROOT, Command, long

if TYPE_CHECKING:
    from pathlib import Path

CELLS = [*product(WORKLOADS, SIZES, WAYS)]


@pytest.fixture(scope="module")
def paper() -> Kh90Paper:
    return Kh90Paper()


def test_everything_is_transcribed(paper: Kh90Paper) -> None:
    rows = expected()
    counts = dict(rows.group_by("table").len().iter_rows())
    assert counts["Table 1"] == 9 * 7
    assert counts["Appendix A"] == 7 * 9 * 7
    assert counts["Table 2"] == 8 * 3
    assert counts["Table 4"] == 9 * 5 * 2
    assert counts["Table 3"] == 6 * 2 * 2 - 1  # the scan has lost one relative figure
    keys = ["table", "workload", "size", "ways", "heuristic", "pool", "quantity"]
    assert not rows.select(keys).is_duplicated().any()
    garbled = rows.filter(pl.col("note").str.starts_with("garbled"))
    assert garbled["heuristic"].unique().sort().to_list() == ["page-coloring-equal", "page-coloring-pid-hash"]


@pytest.mark.parametrize(("workload", "size", "ways"), CELLS)
def test_a_reduction_follows_from_its_row(paper: Kh90Paper, workload: str, size: str, ways: int) -> None:
    random, careful = (paper.cell(workload, name, size, ways, "mean") for name in ("random", "hierarchical"))
    given = paper.cell(workload, "hierarchical", size, ways, "reduction")
    # The paper's means are rounded to four digits, its reduction to one.
    least, most = (100 * (1 - (careful + off) / (random - off)) for off in (5e-5, -5e-5))
    assert least - 0.0501 <= 100 * given <= most + 0.0501
    if ways == 1:
        assert 100 * (paper("Table 2", workload, "hierarchical", size, 1, "reduction") or 0) == pytest.approx(
            100 * given, abs=0.5001
        )


def test_table_4_agrees_with_table_1_and_with_itself(paper: Kh90Paper) -> None:
    for size, ways, name in product(SIZES, WAYS, HEURISTICS[1:]):
        base = paper.cell("mult2.2", "hierarchical", size, ways, "mean")
        mean = paper("Table 4", "mult2.2", name, size, ways, "mean") or 0
        relative = paper("Table 4", "mult2.2", name, size, ways, "relative") or 0
        assert (mean - 0.0051) / base - 0.0051 <= 1 + relative <= (mean + 0.0051) / base + 0.0051
        if name == "hierarchical":
            assert mean == pytest.approx(base, abs=0.00501)


def test_the_figures_that_the_claims_name_come_out_of_the_tables(paper: Kh90Paper) -> None:
    def value(heuristic: str, quantity: str, *cell: object) -> float:
        return paper.cell(cell[0], heuristic, cell[1], cell[2], quantity)  # type: ignore[arg-type]

    reductions = {
        ways: [value("hierarchical", "reduction", *cell) for cell in CELLS if cell[2] == ways]
        for ways in WAYS
    }
    assert [round(100 * sum(of) / 24, 1) for of in reductions.values()] == [16.8, 9.9, 5.9]
    assert sum(reduction <= 0 for of in reductions.values() for reduction in of) == 5
    half = {
        (name, cell): value(name, "half-width", *cell)
        for name in ("random", "hierarchical")
        for cell in CELLS
    }
    assert sum(half["hierarchical", cell] < half["random", cell] for cell in CELLS) == 57
    apart = [
        value("hierarchical", "mean", *cell) + half["hierarchical", cell]
        < value("random", "mean", *cell) - half["random", cell]
        for cell in CELLS
        if cell[2] == 1
    ]
    assert sum(apart) == 14
    pairs = [*product(WORKLOADS, SIZES)]
    assert sum(half["random", (*pair, 1)] > half["random", (*pair, 4)] for pair in pairs) == 23


def test_the_study_is_the_one_the_specification_asks_for() -> None:
    plan = study.plan(study.load(kh90.STUDY), scale="paper")
    careful = [place for place in plan.places if place.part == "careful"]
    assert len(careful) == 8 * 2 * 9
    assert {place.seeds for place in careful} == {(0, 1, 2, 3)}
    assert {place.cell.end.instructions for place in careful} == {3_000_000_000}
    resolved = {place.parameters["heuristic"]: place.cell.machine.resolved() for place in careful}
    assert 'policy = "hierarchical"\npool = "4MiB"\nbins = 1024' in resolved["hierarchical"]
    smoke, quick = (study.plan(study.load(kh90.STUDY), scale=scale) for scale in ("smoke", "quick"))
    for of, length in ((smoke, 20_000_000), (quick, 1_000_000_000)):
        lengths = {place.cell.end.length for place in of.places if not place.part.startswith("today")}
        assert lengths == {length}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the result of the whole study, run by the command at a thousandth of smoke scale."""
    directory = tmp_path_factory.mktemp("kh90")
    text = kh90.STUDY.read_text()
    text = re.sub(r'^length = ".*"$', 'length = "20k"', text, flags=re.MULTILINE)
    text = re.sub(r"^seeds = \d+", "seeds = 3", text, flags=re.MULTILINE)
    (directory / "study.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kh90, "STUDY", directory / "study.toml")
        code = cli.main(["reproduce", "kh90", "--scale", "smoke", "--out", str(directory / "out"), "-q"])
    assert code == 0
    return directory / "out"


def test_it_leaves_everything_in_one_directory(tiny: Path) -> None:
    names = {path.name for path in tiny.iterdir()}
    assert {f"{name}.parquet" for name in ("results", "series", "processes", "cells")} <= names
    figures = {f"figure-{number}" for number in (3, 4, 10, 11, 12)} | {"pools", "today"}
    assert {f"{stem}.{kind}" for stem in figures for kind in ("png", "svg")} <= names
    tables = {f"table-{number}.csv" for number in range(1, 5)}
    assert tables | {f"appendix-a-{name}.csv" for name in WORKLOADS if name != "mult2.2"} <= names
    assert {"report.md", "claims.json", "provenance.json", "study.toml", "run.json"} <= names
    assert not (tiny.parent / ".out.finished").exists()


def test_the_claims_are_all_there_and_undecided(tiny: Path) -> None:
    rows = json.loads((tiny / "claims.json").read_text())
    assert [row["id"] for row in rows] == [f"K{number}" for number in range(1, 16)]
    assert {row["verdict"] for row in rows[2:]} == {"undecided"}
    assert all("too short" in row["how"] for row in rows[2:])
    assert [row["verdict"] for row in rows[:2]] == ["holds", "holds"]


def test_the_page_shows_both_and_links_to_what_is_there(tiny: Path) -> None:
    page = (tiny / "report.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (tiny / link).is_file(), link
    assert "(1.4953 ± 0.1264)" in page
    assert "(0.64, +8%)" in page
    assert "Scale `smoke`" in page
    assert "nan" not in page
    assert "- page-coloring-equal: garbled scan" in page
    for number in range(1, 16):
        assert f"| K{number} |" in page
    for size, heuristic in (("1MiB", "random mean"), ("16MiB", "hierarchical median")):
        table = pl.read_csv(tiny / "table-1.csv").filter(size=size, ways=1)
        assert f"{table[heuristic][0]:.4f}" in page


def test_the_table_s_figures_are_the_run_s(tiny: Path) -> None:
    results = pl.read_parquet(tiny / "results.parquet").filter(
        part="careful", workload="tree", heuristic="random", metric="l2.mpi", phase="measured"
    )
    cell = results.filter((pl.col("cache.l2.size") == "4MiB") & (pl.col("cache.l2.ways") == "2"))
    table = pl.read_csv(tiny / "appendix-a-tree.csv").filter(size="4MiB", ways=2)
    assert table["random mean"][0] == pytest.approx(1000 * sum(cell["value"]) / 3, abs=1e-6)


def test_all_of_it_is_drawn_anew_without_a_run(tiny: Path) -> None:
    files = ("report.md", "claims.json", "table-1.csv", "figure-11.svg", "figure-12.png", "today.csv")
    before = {name: (tiny / name).read_bytes() for name in files}
    for name in files:
        (tiny / name).unlink()
    assert cli.main(["report", str(tiny), "-q"]) == 0
    assert {name: (tiny / name).read_bytes() for name in files} == before


def test_tables_call_it_the_paper(tiny: Path) -> None:
    published = [ROOT / "studies" / key / PAPERS[key].published for key in PAPERS]
    for directory in (tiny, *published):
        tables = [path.read_text() for path in directory.glob("*.csv")]
        assert any("paper" in text.splitlines()[0] for text in tables)
        assert not [text for text in tables if "document" in text]
        facts = json.loads((directory / "provenance.json").read_text())
        assert facts["paper"] == (directory.parent.name if directory in published else "kh90")
        assert "document" not in facts
    for name in ("table-1.csv", "table-3.csv"):
        heads, there = ((place / name).read_text().splitlines()[0] for place in (tiny, published[0]))
        assert heads == there


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def undrawn(_: object, directory: Path, stem: str) -> list[Path]:
        """Makes empty figures, because drawing takes most of the time."""
        made = [directory / f"{stem}.{kind}" for kind in ("png", "svg")]
        for path in made:
            path.touch()
        return made

    for name in ("kh90.save", "kh90.figures.save", "lf91.figures.style.save", "mb90.figures.save"):
        monkeypatch.setattr(f"binhop.reproduce.{name}", undrawn)


@pytest.mark.parametrize("key", PAPERS)
@pytest.mark.usefixtures("without_figures")
def test_the_published_texts_are_what_report_makes(tmp_path: Path, key: str) -> None:
    published = ROOT / "studies" / key / PAPERS[key].published
    for path in (*published.glob("*.parquet"), published / "provenance.json"):
        shutil.copy(path, tmp_path)
    assert cli.main(["report", str(tmp_path), "-q"]) == 0
    texts = [path for path in published.iterdir() if path.suffix in (".csv", ".md")]
    assert len(texts) >= 3
    assert [path.name for path in texts if (tmp_path / path.name).read_text() != path.read_text()] == []


@pytest.mark.parametrize("key", [key if key == "mb90" else long(key) for key in PAPERS])
@pytest.mark.usefixtures("without_figures")
def test_the_published_directory_can_be_made_anew(tmp_path: Path, key: str) -> None:
    """The directory's run.json lists every file that binhop has written."""
    whole = shutil.copytree(ROOT / "studies" / key / PAPERS[key].published, tmp_path / "whole")
    assert cli.main(["report", str(whole), "-q"]) == 0


def test_what_cannot_be_asked_for(command: Command) -> None:
    assert "lf92: no paper has this key" in command.refused("reproduce", "lf92")
    assert "quik: no scale has this name; did you mean quick?" in command.refused(
        "reproduce", "kh90", "--scale", "quik"
    )
    assert "is no directory of results" in command.refused("report", ".")


def test_the_study_lies_where_one_looks_for_it() -> None:
    place = ROOT / "studies" / "kh90"
    assert (place / "README.md").is_file()
    assert (place / "study.toml").read_bytes() == kh90.STUDY.read_bytes()
    assert (place / "expected.csv").read_bytes() == (kh90.HERE / "expected.csv").read_bytes()
