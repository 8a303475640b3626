"""A trace that is read several times is the same each time, or refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.errors import RequestError
from tests.conftest import LOAD, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def own(path: Path, first: int) -> None:
    binhop.Trace.from_arrow(events([(LOAD, first + 64 * row, 8, 1) for row in range(100)])).write(path)


def foreign(path: Path, first: int) -> None:
    pl.DataFrame(events([(LOAD, first + 64 * row, 8, 1) for row in range(100)])).write_parquet(path)


def din(path: Path, first: int) -> None:
    path.write_text("".join(f"0 {first + 64 * row:x}\n" for row in range(100)), encoding="ascii")


def drmemtrace(path: Path, first: int) -> None:
    """Makes a directory of one file: header, thread, process, instructions, footer."""
    (path / "trace").mkdir(parents=True, exist_ok=True)
    records = [
        (25, 0, 7),
        (22, 4, 1),
        (24, 4, 1),
        *((10, 4, first + 4 * row) for row in range(9)),
        (26, 0, 0),
    ]
    data = b"".join(
        kind.to_bytes(2, "little") + size.to_bytes(2, "little") + address.to_bytes(8, "little")
        for kind, size, address in records
    )
    (path / "trace" / "one.trace").write_bytes(data)


KINDS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "own": ("t.parquet", own),
    "foreign": ("t.parquet", foreign),
    "din": ("t.din", din),
    "drmemtrace": ("t", drmemtrace),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_that_changed_between_two_readings_is_refused(tmp_path: Path, kind: str) -> None:
    name, write = KINDS[kind]
    path = tmp_path / name
    write(path, 0x1000)
    trace = binhop.Trace.open(path)
    before = trace.inspect()["content_hash"]
    assert trace.inspect()["content_hash"] == before
    write(path, 0x2000)
    with pytest.raises(RequestError) as refused:
        trace.inspect()
    assert refused.value.rule == "the file has changed since it was first read"
    assert refused.value.value == str(path)
    assert binhop.Trace.open(path).inspect()["content_hash"] != before


def test_a_trace_of_ours_may_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    own(path, 0x1000)
    trace = binhop.Trace.open(path)
    before = trace.inspect()["content_hash"]
    path.unlink()
    own(path, 0x1000)
    assert trace.inspect()["content_hash"] == before, "the same events are the same trace"


def test_placements_are_not_simulated_on_two_traces(tmp_path: Path) -> None:
    """Rounds of `--until` read the trace anew. The file is exchanged after the first round."""
    path = tmp_path / "t.din"
    din(path, 0x1000)
    trace = binhop.Trace.open(path)
    stream, readings = trace._stream, []

    def exchanged() -> object:
        if len(readings) == 1:
            din(path, 0x40_0000)
        readings.append(path)
        return stream()

    trace._stream = exchanged  # type: ignore[assignment]
    with pytest.raises(RequestError, match="has changed since"):
        binhop.simulate_until("kh90", trace, until="0.0001%", seeds=64)
    assert len(readings) == 2


def test_what_is_hashed_is_what_was_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.din"
    din(path, 0x1000)
    trace = binhop.Trace.open(path)
    real = os.fstat

    def changed(number: int) -> os.stat_result:
        din(path, 0x2000)
        return real(number)

    monkeypatch.setattr(os, "fstat", changed)
    with pytest.raises(RequestError, match="has changed since"):
        trace.provenance()
