"""Tests runs of studies: equal cells merge, tables equal those of single runs, stopped studies continue."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import study

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

TEXT = """
name = "two"
title = "Two parts that share a cell"
confidence = 0.9
seeds = 3
length = "20k"
interval = "10k"

[[part]]
name = "sizes"
workloads = ["lin", "tree"]
machine = "kh90"
[part.axes]
"cache.l2.size" = ["1MiB", "4MiB"]

[[part]]
name = "pools"
workloads = ["lin"]
machine = "kh90"
seeds = 2
keep = ["series"]
[part.axes]
"placement.pool" = ["4MiB", "256KiB"]
"""


@pytest.fixture(scope="module")
def result() -> study.StudyResult:
    return study.run(study.plan(study.parse(TEXT)))


def test_files_where_a_command_runs_are_no_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "study"
    own.mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "lin").write_text("somebody's notes")
    monkeypatch.chdir(tmp_path)
    plan = study.plan(study.parse(TEXT), directory=own)
    assert [(name, trace.endless) for name, trace in plan.traces.items()] == [("lin", True), ("tree", True)]


def test_equal_cells_are_one_and_run_once() -> None:
    plan = study.plan(study.parse(TEXT))
    assert len(plan.places) == 6
    assert [(run.workload, len(run.cells), run.seeds) for run in plan.runs] == [
        ("lin", 2, (0, 1, 2)),
        ("lin", 1, (0, 1)),
        ("tree", 2, (0, 1, 2)),
    ]
    lines = study.explain(plan)
    assert lines[0] == (
        "two: 6 cells in 2 parts; equal cells are simulated once, which leaves 5 cells in 3 runs"
    )
    own = [line for line in lines[1:] if line.startswith(("run", "  cell"))]
    assert own == [
        "run 1: lin, 20 000 references: 2 cells × 3 seeds",
        "  cells: sizes, kh90, cache.l2.size=1MiB; sizes, kh90, cache.l2.size=4MiB",
        "run 2: lin, 20 000 references: 1 cell × 2 seeds",
        "  cell: pools, kh90, placement.pool=256KiB",
        "run 3: tree, 20 000 references: 2 cells × 3 seeds",
        "  cells: sizes, kh90, cache.l2.size=1MiB; sizes, kh90, cache.l2.size=4MiB",
    ]
    (alone, *_) = study.explain(study.plan(study.parse(TEXT.partition('[[part]]\nname = "pools"')[0])))
    assert alone == "two: 4 cells in 1 part, simulated in 2 runs"


def test_the_tables_hold_what_single_runs_hold(result: study.StudyResult) -> None:
    for (size,), of in result.results.filter(part="sizes", workload="tree").group_by("cache.l2.size"):
        machine = binhop.Machine.load("kh90", [f"cache.l2.size={size}"])
        alone = binhop.simulate(machine, "tree", seeds=3, length=20_000, interval=10_000)
        assert of.select("phase", "seed", "metric", "value").rows() == (
            alone.results.select("phase", "seed", "metric", "value").rows()
        )


def test_each_part_has_its_own_rows_and_placements(result: study.StudyResult) -> None:
    rates = result.results.filter(metric="l2.mpi")
    assert rates.filter(part="sizes").height == 2 * 2 * 3
    assert rates.filter(part="pools").height == 2 * 2
    shared = rates.filter(workload="lin").filter(
        (pl.col("cache.l2.size") == "4MiB") | (pl.col("placement.pool") == "4MiB")
    )
    assert shared["cell"].n_unique() == 1
    assert shared.sort("seed", "part")["value"].to_list()[:4] == [
        value for value in shared.filter(part="pools")["value"].to_list() for _ in "ab"
    ]
    assert rates.filter(part="pools")["cache.l2.size"].null_count() == 4
    assert result.series["part"].unique().sort().to_list() == ["pools", "sizes"]
    assert result.processes["part"].unique().to_list() == ["sizes"]
    assert result.cells.height == 6


def test_it_reads_back_what_it_wrote(result: study.StudyResult, tmp_path: Path) -> None:
    result.write(tmp_path)
    again = study.StudyResult.read(tmp_path)
    for table in ("results", "series", "processes", "cells"):
        assert getattr(again, table).equals(getattr(result, table))
    assert again.summary().equals(result.summary())
    assert again.summary()["confidence"].unique().to_list() == [0.9]


def test_a_stopped_study_goes_on(
    result: study.StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = study.plan(study.parse(TEXT))
    simulated: list[str] = []
    stop = ["tree"]
    real = binhop.simulate_all

    def simulate_all(machines: object, trace: binhop.Trace, **options: object) -> object:
        if trace.name in stop:
            raise KeyboardInterrupt
        simulated.append(trace.name)
        return real(machines, trace, **options)

    monkeypatch.setattr(binhop, "simulate_all", simulate_all)
    with pytest.raises(KeyboardInterrupt):
        study.run(plan, kept=tmp_path)
    assert simulated == ["lin", "lin"]
    assert len([*tmp_path.iterdir()]) == 2
    stop.clear()
    again = study.run(plan, kept=tmp_path)
    assert simulated == ["lin", "lin", "tree"]
    assert again.results.equals(result.results)
    assert again.processes.equals(result.processes)
    assert again.notes == result.notes
    other = study.plan(study.parse(TEXT), override=study.Amount(seeds=1))
    study.run(other, kept=tmp_path)
    assert simulated == ["lin", "lin", "tree", "lin", "tree"], "another amount is another run"


def test_what_is_kept_depends_on_everything(tmp_path: Path) -> None:
    for override in (None, study.Amount(seeds=1), study.Amount(length=10_000), study.Amount(interval=500)):
        plan = study.plan(study.parse(TEXT), override=override)
        study.run(plan, kept=tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == len({*names}) == 3 + 2 + 3 + 3, "one placement for all: lin's cells are one run"


def test_the_plan_is_told_in_lines_of_80_columns(command: Command) -> None:
    (command.directory / "two.toml").write_text(TEXT)
    explained = command.ok("sweep", "two.toml", "--explain").stdout
    assert max(map(len, explained.splitlines())) <= 80
    whole = study.explain(study.plan(study.parse(TEXT)))
    assert explained.split() == " ".join(whole).split()
    not_taken = [line for line in whole if "is not taken" in line]
    assert all(re.fullmatch(r" +fast path [a-z-]+ is not taken: .+", line) for line in not_taken)
    names = "sizes, kh90, cache.l2.size=1MiB; sizes, kh90, cache.l2.size=4MiB"
    assert f"  front 1 of preparation 1: 2 machines ({names})" in whole


def test_the_command(command: Command) -> None:
    (command.directory / "two.toml").write_text(TEXT)
    explained = command.ok("sweep", "two.toml", "--explain").stdout
    assert explained.startswith("two: 6 cells in 2 parts")
    assert not (command.directory / "out").exists()
    done = command.ok("sweep", "two.toml", "--out", "out", "--json", "all.json")
    assert "sizes: 3 placements\n" in done.stdout
    made = {file.name for file in (command.directory / "out").iterdir()}
    tables = {f"{name}.parquet" for name in ("results", "series", "processes", "cells")}
    assert made == tables | {"summary.csv", "provenance.json", "study.toml", "run.json"}
    assert not (command.directory / ".out.finished").exists()
    rows = json.loads((command.directory / "all.json").read_text())["rows"]
    table = pl.read_parquet(command.directory / "out" / "results.parquet")
    assert len(rows) == table.height
    shutil.copytree(command.directory / "out", command.directory / "first")
    command.ok("sweep", "two.toml", "--out", "out", "--threads", "1", "-q")
    for name in made - {"run.json"}:
        first, second = (command.directory / where / name for where in ("first", "out"))
        assert first.read_bytes() == second.read_bytes(), name


def test_a_result_is_reported_anew(command: Command) -> None:
    (command.directory / "two.toml").write_text(TEXT)
    command.ok("sweep", "two.toml", "--out", "study", "-q")
    command.ok("run", "kh90", "lin", "--length", "500k", "--seeds", "3", "--out", "run", "-q")
    for made in ("study/summary.csv", "run/lin-l2.svg"):
        path = command.directory / made
        before = path.read_bytes()
        path.unlink()
        assert made in command.ok("report", made.split("/")[0]).stdout
        assert path.read_bytes() == before


def test_the_command_refuses(command: Command) -> None:
    (command.directory / "two.toml").write_text(TEXT)
    assert "three.toml: cannot be read" in command.refused("sweep", "three.toml")
    assert "--seeds: 0: must be at least 1" in command.refused("sweep", "two.toml", "--seeds", "0")
    assert "holds something that is no result" in command.refused("sweep", "two.toml", "--out", ".")
