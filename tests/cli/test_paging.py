"""Tests `binhop paging`: the table, the files, and refused requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.conftest import LOAD, events

if TYPE_CHECKING:
    from tests.conftest import Command


def test_the_table_fits_and_holds_every_cell(command: Command) -> None:
    printed = command.ok("paging", "mult1", "lin", "--length", "2M").stdout.splitlines()
    assert max(map(len, printed)) <= 80
    assert [line.split()[0] for line in printed if line.endswith("by colors")] == ["mult1:", "lin:"]
    rows = [line.split() for line in printed if "MiB" in line]
    assert [row[0] for row in rows] == 2 * ["1", "2", "4", "8", "16", "32", "64"]
    assert {len(row) for row in rows} == {2 + 7}


@pytest.mark.parametrize(
    ("touches", "rate"), [(1024, "976.56"), (512, "1953"), (16, "62500"), (4, "250000"), (1, "1000000")]
)
def test_no_word_and_no_number_is_folded(command: Command, touches: int, rate: str) -> None:
    table = events([(LOAD, 4096 * (n // touches), 8, 1) for n in range(1024)])
    table.write_parquet(command.directory / "pages.parquet")
    printed = command.ok("paging", "pages.parquet").stdout.splitlines()
    assert max(map(len, printed)) <= 80
    rows = [line.split() for line in printed if "MiB" in line]
    assert rows == [[str(1 << log2), "MiB", *7 * [rate]] for log2 in range(7)]
    heads = [line.split()[0] for line in printed if line.strip()]
    assert heads == ["pages:", "memory", *(str(1 << log2) for log2 in range(7)), "utilization"]


def test_a_trace_without_references_has_no_rate(command: Command) -> None:
    events([]).write_parquet(command.directory / "empty.parquet")
    printed = command.ok("paging", "empty.parquet", "--out", "out").stdout
    assert "nan" not in printed.lower()
    assert "note: nothing was simulated: the trace has no references" in printed
    rates = pl.read_parquet(command.directory / "out" / "faults.parquet")["fault_rate"]
    assert rates.null_count() == len(rates) > 0


def test_more_colors_than_fit_are_printed_below(command: Command) -> None:
    colors = ",".join(str(1 << log2) for log2 in range(9))
    printed = command.ok("paging", "lin", "--length", "1M", "--sizes", "1MiB", "--colors", colors).stdout
    heads = [line.split()[1:] for line in printed.splitlines() if line.startswith("memory")]
    assert heads == [["1", "2", "4", "8", "16", "32", "64"], ["128", "256"]]
    assert "-" in printed  # fewer pages than 256 colors


def test_json_and_files_say_the_same(command: Command, lin: object) -> None:
    document = json.loads(command.ok("paging", str(lin), "--json", "-", "--out", "out").stdout)
    assert document["schema"] == 1
    assert document["provenance"]["traces"][0]["content_hash"]
    written = pl.read_parquet(command.directory / "out" / "results.parquet")
    assert [row["metric"] for row in document["rows"]] == written["metric"].to_list()
    assert command.ok("paging", str(lin), "--quiet").stdout == ""


def test_what_is_wrong_is_refused_with_its_remedy(command: Command) -> None:
    assert "1MB" in command.refused("paging", "lin", "--sizes", "1MB")
    assert "256 frames" in command.refused("paging", "lin", "--sizes", "1MiB", "--colors", "512")
    assert "whole number" in command.refused("paging", "lin", "--colors", "1,x")
    assert "at least one color count" in command.refused("paging", "lin", "--colors", ",")
    assert "--length" in command.refused("paging", "lin", "--length", "0")
    assert "lin" in command.refused("paging", "lin", "lin", "--length", "1M")


def test_a_result_is_drawn_anew_from_its_tables(command: Command) -> None:
    command.ok("paging", "lin", "sor", "--length", "1M", "--out", "out")
    names = {f"out/{workload}-paging.{kind}" for workload in ("lin", "sor") for kind in ("png", "svg")}
    before = {name: (command.directory / name).read_bytes() for name in names}
    for name in names:
        (command.directory / name).unlink()
    command.ok("report", "out")
    assert {name: (command.directory / name).read_bytes() for name in names} == before
    # One memory and one number of colors give no figure.
    command.ok("paging", "lin", "--length", "1M", "--sizes", "1MiB", "--colors", "4", "--out", "one")
    assert not [*(command.directory / "one").glob("*.png")]


def test_a_comparison_is_drawn_anew_too(command: Command) -> None:
    command.ok(
        *("compare", "kh90", "lin", "--length", "200k", "--seeds", "3", "--out", "out"),
        *("--set", "placement.policy=random,first"),
    )
    figures = {path: path.read_bytes() for path in (command.directory / "out").glob("*.png")}
    assert figures
    command.ok("report", "out", "--quiet")
    assert {path: path.read_bytes() for path in figures} == figures
