"""Tests `binhop surface`: the tables, the files, and refused requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

import binhop
from binhop.tables import rendered
from binhop.tables.surface import surface_tables

if TYPE_CHECKING:
    from tests.conftest import Command

TRACES = ("lin", "tree", "--length", "60k")
GRID = ("--machine", "zen-4k", "--quantum", "5k,20k", "--set", "cache.l1d.size=6KiB,48KiB", "--seeds", "2")


def test_the_surface_is_that_of_single_measurements(command: Command) -> None:
    told = json.loads(command.ok("surface", *TRACES, *GRID, "--confidence", "0.9", "--json", "-").stdout)
    rows = pl.DataFrame(told["rows"])
    assert rows["machine"].unique(maintain_order=True).to_list() == ["l1d 6KiB", "l1d 48KiB"]
    machine = binhop.Machine.load("zen-4k", ["cache.l1d.size=6KiB"])
    mixed = binhop.Trace.mix(["lin", "tree"], 20_000, length=60_000)
    one = binhop.switches(machine, mixed, seeds=2).overheads()
    for metric in ("exact", "returning", "overhead_returning"):
        found = rows.filter(quantum=20_000, machine="l1d 6KiB", metric=metric)
        assert found["mean"].to_list() == [one[metric].mean()]
    tables = rendered(surface_tables(rows, told["provenance"]), [], "md")
    assert "| quantum, instructions | 5 000 | 20 000 |" in tables
    assert "90% interval" in tables


def test_the_tables_are_made_anew(command: Command) -> None:
    one = ("--machine", "zen-4k", "--quantum", "5k", "--seeds", "1")
    printed = command.ok("surface", *TRACES, *one, "--out", "out", "--table", "md").stdout
    assert {path.name for path in (command.directory / "out").iterdir()} == {
        *("lin+tree-surface.png", "lin+tree-surface.svg", "machines", "table.md"),
        *("provenance.json", "run.json", "surface.csv", "surface.parquet"),
    }
    assert command.ok("report", "out", "--table", "md").stdout == printed


def test_what_is_wrong_is_refused_with_its_remedy(command: Command) -> None:
    base = ("surface", *TRACES, "--machine", "zen-4k", "--seeds", "1")
    said = command.refused(*base, "--quantum", "5k,20kcycles")
    assert said.startswith("binhop: --quantum: 20kcycles: is in cycles")
    assert "binhop switches --mix" in said
    said = command.refused(*base, "--quantum", "5k,0")
    assert said.startswith("binhop: --quantum: 0: a turn lasts at least one instruction")
    assert "given twice" in command.refused(*base, "--quantum", "5k,5000")
    assert "[cost]" in command.refused("surface", *TRACES, "--machine", "zen-4k,kh90")
    assert "no switch" in command.refused("surface", "lin", "--length", "60k", *GRID)
