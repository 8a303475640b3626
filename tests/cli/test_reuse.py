"""Tests `binhop reuse`: the tables, the files, and refused requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

import binhop
from tests.conftest import LOAD, events

if TYPE_CHECKING:
    from tests.conftest import Command


def test_the_tables_fit_and_hold_every_size(command: Command) -> None:
    arguments = ("reuse", "sor", "timesharing", "--length", "500k", "--simulate", "4KiB,32KiB")
    printed = command.ok(*arguments).stdout.splitlines()
    assert max(map(len, printed)) <= 80
    sizes = [line.split()[:2] for line in printed if line[:8].strip().endswith("iB")]
    assert ["32", "KiB"] in sizes
    assert ["1", "KiB"] in sizes
    assert any(line.startswith("timesharing: processes") for line in printed)
    assert any(line.startswith("sor: segments") for line in printed)


def test_a_trace_by_hand(command: Command) -> None:
    """Four lines in turn, three times: the second and third turn have distance 3."""
    table = events([(LOAD, 64 * (n % 4), 8, 1) for n in range(12)])
    found = binhop.reuse(table, sizes=["64B", "192B", "256B", "1KiB"])
    assert found.curve["misses"].to_list() == [12, 12, 4, 4]
    assert found.curve["accesses"].to_list() == [12] * 4
    of_process = found.distances.filter(group="process").select("kind", "distance", "accesses")
    assert of_process.rows() == [("load", None, 4), ("load", 2, 8)]
    assert binhop.reuse(table, kinds="fetch").curve["accesses"].to_list() == [0]


def test_simulated_caches_stand_beside_the_curve() -> None:
    """A cache that holds all lines misses their first accesses alone, whatever its sets."""
    found = binhop.reuse("sor", length=200_000, simulated=["1MiB"], ways=16, seeds=2)
    (point,) = found.simulated.iter_rows(named=True)
    last = found.curve.row(-1, named=True)
    assert (point["ways"], point["placements"]) == (16, 2)
    assert point["least"] == point["largest"] == last["miss_ratio"]


def test_a_trace_without_reuse_is_drawn(command: Command) -> None:
    events([(LOAD, 64 * n, 8, 1) for n in range(3)]).write_parquet(command.directory / "once.parquet")
    command.ok("reuse", "once.parquet", "--out", "out")
    assert (command.directory / "out" / "once-reuse.png").stat().st_size > 1000


def test_json_and_files_say_the_same(command: Command, lin: object) -> None:
    document = json.loads(command.ok("reuse", str(lin), "--json", "-", "--out", "out").stdout)
    written = pl.read_parquet(command.directory / "out" / "results.parquet")
    assert [row["metric"] for row in document["rows"]] == written["metric"].to_list()
    assert (
        document["distances"] == pl.read_parquet(command.directory / "out" / "distances.parquet").to_dicts()
    )
    assert command.ok("reuse", str(lin), "--quiet").stdout == ""
    assert (command.directory / "out" / "lin-reuse.png").stat().st_size > 1000


def test_what_is_wrong_is_refused_with_its_remedy(command: Command) -> None:
    assert "48" in command.refused("reuse", "lin", "--unit", "48B")
    assert "at most 1 GiB" in command.refused("reuse", "lin", "--unit", "1TiB")
    assert "1048576 TiB" in command.refused("reuse", "lin", "--sizes", "1099511627776TiB")
    assert "whole units of 64 bytes" in command.refused("reuse", "lin", "--sizes", "100B")
    assert "at least one size" in command.refused("reuse", "lin", "--sizes", ",")
    assert "asked for once" in command.refused("reuse", "lin", "--sizes", "1MiB,1024KiB")
    assert "asked for once" in command.refused("reuse", "lin", "--simulate", "1MiB,1MiB")
    assert "--ways 8" in command.refused("reuse", "lin", "--ways", "0")
    assert "1MB" in command.refused("reuse", "lin", "--simulate", "1MB")
    assert "--length" in command.refused("reuse", "lin", "--length", "0")
    assert "fetches, loads and stores" in command.refused(
        "reuse", "lin", "--kinds", "data", "--simulate", "1MiB"
    )
    assert "power of two" in command.refused("reuse", "lin", "--simulate", "96KiB")
