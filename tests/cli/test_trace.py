"""Tests the commands `trace` and `export`."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from tests.conftest import COMMAND, FETCH, LOAD, STORE, events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

SWITCH, MAP = 4, 7


@pytest.fixture
def two(command: Command) -> Path:
    """Writes a trace of two processes: sh loads from its heap, cc1 stores to its stack."""
    rows = [
        (MAP, 0x1000, 3, 1),
        (FETCH, 0x400, 8, 2),
        (LOAD, 0x1008, 8, 1),
        (SWITCH, 1, 0, 0),
        (STORE, 0x2000, 4, 1),
        (FETCH, 0x500, 4, 1),
        (SWITCH, 0, 0, 0),
        (LOAD, 0x1010, 8, 1),
    ]
    path = command.directory / "two.parquet"
    binhop.Trace.from_arrow(events(rows)).write(path)
    return path


def test_head_shows_lines(command: Command, two: Path) -> None:
    done = command.ok("trace", "head", str(two), "-n", "3")
    assert done.stdout == "map 0x1000 pages=1 flags=rw-\nfetch 0x400 size=8 count=2\nload 0x1008 size=8\n"
    done = command.ok("trace", "head", str(two), "--references", "2", "--json-lines")
    assert [json.loads(line)["op"] for line in done.stdout.splitlines()] == ["map", "fetch"]


def test_text_is_imported_to_the_same_trace(command: Command, lin: Path) -> None:
    text = command.ok("trace", "cat", str(lin)).stdout
    command.ok("import", "-", "-o", "again.parquet", "--format", "text", stdin=text)
    again = binhop.Trace.open(command.directory / "again.parquet")
    original = binhop.Trace.open(lin)
    assert again.stream().content_hash == original.stream().content_hash
    assert again.meta == original.meta


def test_a_slice_is_a_trace(command: Command, two: Path) -> None:
    done = command.ok("trace", "slice", str(two), "3", "5", "-o", "part.parquet")
    assert done.stderr.startswith("part.parquet: 2 references, 5 rows")
    part = pl.read_parquet(command.directory / "part.parquet")
    # The events before the row behind the slice belong to the slice, as with any length.
    assert part["op"].to_list() == [MAP, SWITCH, STORE, FETCH, SWITCH]
    alone = binhop.Trace.open(two).slice(3, 5).inspect()
    assert alone["totals"]["references"] == 2


def test_slices_end_to_end_are_the_whole(command: Command, lin: Path) -> None:
    command.ok("trace", "slice", str(lin), "0", "40k", "-o", "a.parquet")
    command.ok("trace", "slice", str(lin), "40k", "-o", "b.parquet")
    whole = pl.read_parquet(lin).filter(pl.col("op") < 4)
    parts = [
        pl.read_parquet(command.directory / name).filter(pl.col("op") < 4)
        for name in ("a.parquet", "b.parquet")
    ]
    assert pl.concat(parts).equals(whole)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--kind", "store"], ["map", "switch asid=1", "store 0x2000 size=4"]),
        (["--kind", "switch"], ["switch asid=1", "switch asid=0"]),
        (["--process", "1"], ["switch asid=1", "store 0x2000 size=4", "fetch 0x500 size=4 count=1"]),
        (["--kind", "data", "--address", "0x1010-0x1011"], ["map", "switch asid=0", "load 0x1010 size=8"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("-") else "",
)
def test_filters(command: Command, two: Path, arguments: list[str], lines: list[str]) -> None:
    shown = command.ok("trace", "filter", str(two), *arguments).stdout.splitlines()
    assert len(shown) == len(lines)
    assert all(line.startswith(start) for line, start in zip(shown, lines, strict=True)), shown


def test_a_sample_has_its_windows(command: Command, lin: Path) -> None:
    command.ok("trace", "sample", str(lin), "--every", "10k", "--window", "1k", "-o", "s.parquet")
    sampled = binhop.Trace.open(command.directory / "s.parquet").inspect()
    assert 9_900 <= sampled["totals"]["references"] <= 10_200
    drawn = binhop.Trace.open(lin).sample(10_000, 1000, seed=4).inspect()
    again = binhop.Trace.open(lin).sample(10_000, 1000, seed=4).inspect()
    assert drawn["content_hash"] == again["content_hash"] != sampled["content_hash"]


def test_cat_keeps_processes_apart(command: Command, two: Path) -> None:
    command.ok("trace", "cat", str(two), str(two), "-o", "both.parquet")
    report = binhop.Trace.open(command.directory / "both.parquet").inspect()
    assert [process["asid"] for process in report["processes"]] == [0, 1, 2, 3]
    assert report["totals"]["references"] == 2 * binhop.Trace.open(two).inspect()["totals"]["references"]


def test_a_reader_that_leaves_is_no_error(lin: Path) -> None:
    with subprocess.Popen(
        [COMMAND, "trace", "cat", str(lin)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as cat:
        assert cat.stdout is not None
        assert cat.stderr is not None
        cat.stdout.readline()
        cat.stdout.close()
        assert cat.stderr.read() == b""
        assert cat.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["slice", "TRACE", "9k", "9k"], ["9000 to 9000", "ends behind its beginning"]),
        (["slice", "TRACE", "5M"], ["from 5000000", "the trace holds"]),
        (
            ["slice", "TRACE", "begin"],
            ["FROM: begin: must be a whole number, 0 or more", "write a number like 50M"],
        ),
        (["filter", "TRACE", "--kind", "lod"], ["lod", "load"]),
        (["filter", "TRACE", "--process", "cc1"], ["cc1", "no such process"]),
        (["filter", "TRACE", "--process", "pid=x"], ["pid=x", "--process"]),
        (["filter", "TRACE", "--region", "libc"], ["libc", "no segment"]),
        (["filter", "TRACE", "--address", "5"], ["5", "0x1000-0x2000"]),
        (["filter", "TRACE", "--address", "0x10-0x8"], ["0x10-0x8", "first address"]),
        (["filter", "TRACE", "--kernel", "--user"], ["--kernel --user"]),
        (["filter", "TRACE", "--kernel"], ["kernel: no row of the trace passes this filter;"]),
        (
            ["filter", "TRACE", "--process", "999", "--kind", "load", "--kind", "store"],
            ["kind load or store, asid 999: no row", "references are made by asid 0;"],
        ),
        (
            ["filter", "TRACE", "--address", "0-0x1"],
            ["address 0x0-0x1: no row of the trace passes this filter;"],
        ),
        (["head", "TRACE", "-n", "3", "-r", "4"], ["--rows 3 --references 4", "a number of rows, or"]),
        (["sample", "TRACE", "--every", "1k", "--window", "2k"], ["2000 of every 1000", "--every 10M"]),
        (["head", "TRACE", "-o", "x.txt"], ["x.txt", ".parquet"]),
        (["head", "TRACE", "-n", "0"], ["0", "--rows"]),
        (["cat", "lin", "-o", "x.parquet"], ["lin", "never ends", "trace head WORKLOAD --references 50M"]),
        (["cat", "gone.parquet"], ["gone.parquet"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_gets_one_line(
    command: Command, lin: Path, arguments: list[str], says: list[str]
) -> None:
    message = command.refused("trace", *(str(lin) if word == "TRACE" else word for word in arguments))
    for part in says:
        assert part in message, message


def test_din_and_back(command: Command, two: Path) -> None:
    done = command.ok("export", str(two), "--to", "xdin", "-o", "two.xdin.gz")
    assert "two.xdin.gz: 6 references" in done.stderr
    assert "note: 2 switches are left out" in done.stderr
    command.ok("import", "two.xdin.gz", "-o", "back.parquet")
    back = pl.read_parquet(command.directory / "back.parquet")
    assert back["addr"].to_list() == [0x400, 0x1008, 0x2000, 0x500, 0x1010]
    shown = command.ok("export", str(two), "--to", "din", "-o", "-").stdout
    assert shown.splitlines() == ["2 400", "2 404", "0 1008", "1 2000", "2 500", "0 1010"]


@pytest.mark.parametrize("machine", ["kh90", "zen-4k", "two-level"])
def test_memory_gets_what_a_run_counts(command: Command, lin: Path, machine: str) -> None:
    command.ok("export", str(lin), "--machine", machine, "--seed", "7", "--to", "dramsim3", "-o", "mem.trace")
    lines = [line.split() for line in (command.directory / "mem.trace").read_text().splitlines()]
    writes = sum(kind == "write" for _, kind, _ in lines)
    result = binhop.simulate(machine, str(lin), seeds=[7] if machine != "two-level" else None)
    counted = dict(
        result.results.filter(pl.col("metric").str.starts_with("memory."), phase="measured")
        .group_by("metric")
        .agg(pl.col("value").sum())
        .iter_rows()
    )
    kinds = {"write", "writeback", "system"}
    total = {metric: n for metric, n in counted.items() if metric.endswith(".accesses")}
    assert writes == sum(n for metric, n in total.items() if metric.split(".")[1] in kinds)
    reads = {"fetch", "load", "store", "fill"}
    assert len(lines) - writes == sum(n for metric, n in total.items() if metric.split(".")[1] in reads)
    cycles = [int(cycle) for _, _, cycle in lines]
    assert cycles == sorted(cycles)


def test_requests_behind_a_scheme_are_exported(command: Command) -> None:
    words = ["--machine", "tb10", "--set", "dram=ddr4-2400", "--scheme", "ddio", "--length", "20k"]
    done = command.ok("export", "file-copy", *words, "--to", "dramsim3", "-o", "requests.trace")
    found = binhop.dram("ddr4-2400", command.directory / "requests.trace")
    reads, writes = found.counts["reads"] + found.counts["forwarded"], found.counts["writes"]
    assert f"requests.trace: {reads:,} reads and {writes:,} writes of memory".replace(
        ",", " "
    ) in done.stderr.replace(",", " ")
    assert writes > 0
    command.ok("export", "file-copy", *words, "--to", "ramulator2", "-o", "other.trace")
    other = binhop.dram("ddr4-2400", command.directory / "other.trace").requests
    assert other.select("address", "write").equals(found.requests.select("address", "write"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--to", "ramulator"], ["ramulator", "did you mean ramulator2?"]),
        (["--to", "ramulator2"], ["no machine", "--machine kh90"]),
        (["--to", "din", "--machine", "kh90"], ["kh90", "--machine", "without a machine"]),
        (["--to", "din", "--scheme", "ddio"], ["ddio", "--scheme", "without a machine"]),
        (["--to", "dramsim3", "--machine", "zen-4k", "--scheme", "ddip"], ["ddip", "did you mean ddio?"]),
        (
            ["--to", "dramsim3", "--machine", "zen-4k", "--scheme", "ddio"],
            ["no [dram]", "--set dram=ddr4-2400"],
        ),
        (["--to", "dramsim3", "--machine", "cachegrind-like"], ["cachegrind", "leaves no trace"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_wrong_export_gets_one_line(
    command: Command, lin: Path, arguments: list[str], says: list[str]
) -> None:
    message = command.refused("export", str(lin), *arguments, "-o", "out")
    for part in says:
        assert part in message, message


def test_a_packing_that_is_not_written_is_refused(command: Command, lin: Path) -> None:
    for to, more in (("din", []), ("ramulator2", ["--machine", "kh90"])):
        message = command.refused("export", str(lin), "--to", to, *more, "-o", "x.din.bz2")
        assert "ends in .gz, .xz, .zst" in " ".join(message.split())


def test_a_reader_that_goes_ends_an_export_of_billions_of_lines(command: Command) -> None:
    """At some 10 million lines a second the whole trace would take minutes, and 50 GB."""
    long = command.directory / "long.parquet"
    events([(FETCH, 0x1000, 2**16, 2**16)] * 2**16).write_parquet(long)
    with subprocess.Popen(
        [COMMAND, "export", str(long), "--to", "din", "-o", "-", "--quiet"], stdout=subprocess.PIPE
    ) as export:
        assert export.stdout is not None
        assert export.stdout.readline() == b"2 1000\n"
        export.stdout.close()
        assert export.wait(timeout=60) == 0
