"""A length has one meaning in every function that takes a length."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from tests.conftest import FETCH, LOAD, STORE, SWITCH, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def runs() -> list[tuple[int, int, int, int]]:
    """Returns runs of up to nine instructions, data references and switches. The last run ends the trace."""
    draw = random.Random(5)
    rows = []
    for number in range(400):
        count = draw.randint(1, 9)
        rows.append((FETCH, 0x40_0000 + 64 * number, 4 * count, count))
        rows += [(draw.choice([LOAD, STORE]), 0x10_0000 + 8 * draw.randrange(4096), 8, 1)] * draw.randint(
            0, 2
        )
        if number % 7 == 0:
            rows.append((SWITCH, number % 3, 1, 0))
    return rows


def kept(rows: list[tuple[int, int, int, int]], length: int) -> int:
    """Returns the references of the rows before the first row that would exceed the length."""
    references = 0
    for op, _, _, count in rows:
        more = count if op == FETCH else int(op in {LOAD, STORE})
        if references + more > length:
            break
        references += more
    return references


def imported(trace: binhop.Trace, length: int, directory: Path) -> int:
    totals, _ = trace.write(directory / "written.parquet", length)
    return int(totals["totals"]["references"])


def exported(trace: binhop.Trace, length: int, directory: Path) -> int:
    path = directory / "written.din"
    said = trace.export(path, "din", length=length)
    assert len(path.read_text(encoding="ascii").splitlines()) == said["references"]
    return int(said["references"])


def simulated(trace: binhop.Trace, length: int, _: Path) -> int:
    results = binhop.simulate("two-level", trace, length=length).results
    return int(results.filter(pl.col("metric") == "references", phase="measured")["value"][0])


def paged(trace: binhop.Trace, length: int, _: Path) -> int:
    return int(binhop.paging(trace, sizes=["1MiB"], colors=[1], length=length).faults["references"][0])


def reused(trace: binhop.Trace, length: int, _: Path) -> int:
    return int(binhop.reuse(trace, length=length).provenance["traces"][0]["references"])


def mixed(trace: binhop.Trace, length: int, _: Path) -> int:
    return int(binhop.Trace.mix([trace], length=length).inspect()["totals"]["references"])


def reached_memory(trace: binhop.Trace, length: int, directory: Path) -> int:
    """The first `length` references reach memory in the same way as the trace of only these references."""
    path = directory / "memory.txt"
    machine = binhop.Machine.load("two-level")
    said = binhop.export_memory(machine, trace, path, "ramulator2", length=length)
    part = trace.first_references(length)
    assert said == binhop.export_memory(machine, part, path, "ramulator2")
    return int(part.inspect()["totals"]["references"])


WAYS: dict[str, Callable[[binhop.Trace, int, Path], int]] = {
    "inspect": lambda trace, length, _: int(trace.inspect(length)["totals"]["references"]),
    "head": lambda trace, length, _: int(trace.first_references(length).inspect()["totals"]["references"]),
    "slice": lambda trace, length, _: int(trace.slice(0, length).inspect()["totals"]["references"]),
    "import": imported,
    "export": exported,
    "export of memory": reached_memory,
    "run": simulated,
    "paging": paged,
    "reuse": reused,
    "mix": mixed,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_command_counts_the_same_references(way: str, tmp_path: Path) -> None:
    rows = runs()
    path = tmp_path / "runs.parquet"
    binhop.Trace.from_arrow(events(rows)).write(path)
    trace = binhop.Trace.open(path)
    whole = kept(rows, 1 << 40)
    for length in (9, 100, 101, 102, 103, 104, 105, 106, 1000, whole - 1, whole, whole + 1):
        assert WAYS[way](trace, length, tmp_path) == kept(rows, length), length


LONGER = "the first run of instructions exceeds the length of 50, and a run is not cut"
NONE = "the trace has no references"


def test_a_run_without_references_says_why(tmp_path: Path) -> None:
    table = events([(0, 0, 400, 100), (1, 0, 4, 1)])
    binhop.Trace.from_arrow(table, "t").write(tmp_path / "t.parquet")
    notes = binhop.simulate("two-level", tmp_path / "t.parquet", length=50).notes
    assert notes[0] == f"nothing was simulated: {LONGER}"
    notes = binhop.simulate("two-level", tmp_path / "t.parquet", instructions=50).notes
    assert notes[0] == f"nothing was simulated: {LONGER.replace('the length of 50', '50 instructions')}"
    # Only reading a table could tell whether it holds references.
    assert (
        binhop.simulate("two-level", table, length=50).notes[0]
        == f"nothing was simulated: {NONE}, or {LONGER}"
    )
    compared = binhop.compare(["two-level", "kh90"], tmp_path / "t.parquet", length=50, seeds=2)
    assert f"nothing was simulated: {LONGER}" in compared.notes
    maps = events([(5, 0x1000, 0, 1)])
    assert f"nothing was simulated: {NONE}" in binhop.simulate("two-level", maps).notes
    assert not [note for note in binhop.simulate("two-level", table, length=100).notes if "nothing" in note]


def test_paging_without_references_says_why_and_has_no_rate(tmp_path: Path) -> None:
    binhop.Trace.from_arrow(events([(0, 0, 400, 100)]), "t").write(tmp_path / "t.parquet")
    result = binhop.paging(tmp_path / "t.parquet", sizes=["1MiB"], colors=[1], length=50)
    assert result.notes == [f"nothing was simulated: {LONGER}"]
    rates = [row["value"] for row in json.loads(result.to_json())["rows"] if row["metric"] == "paging.rate"]
    assert rates == [None]
