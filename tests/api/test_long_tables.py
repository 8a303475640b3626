"""Tests Ctrl-C while a very long table is written, or read into memory."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import long_tables
from binhop._binhop import LongTable

if TYPE_CHECKING:
    from pathlib import Path

GROUP = 1 << 20
"""The rows that are written to the file together."""
GROUPS = 24
"""The groups of a whole table."""


@pytest.fixture(scope="module")
def series() -> LongTable:
    """Returns a table that consists of several pieces."""
    table = binhop.simulate("kh90", "lin", length="400k", interval=30, seeds=4).held("series")
    assert isinstance(table, LongTable)
    return table


def interrupted_when_a_group_is_written(table: long_tables.AnyTable, path: Path) -> int:
    """Sends SIGINT from another thread when a file has its first rows. Returns the file's size at the end."""
    ended = threading.Event()

    def watch() -> None:
        while not (path.exists() and path.stat().st_size > 1000) and not ended.is_set():
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def write() -> None:
        long_tables.store_table(table, path)
        ended.set()
        time.sleep(60)  # the signal comes in any case

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        ended.set()
        watcher.join()
    return path.stat().st_size


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_interrupted_write_ends_before_the_table_does(
    series: LongTable, tmp_path: Path, where: str
) -> None:
    rows = long_tables.frame_of(series).height
    times = GROUPS * GROUP // rows + 1
    one = tmp_path / "one.parquet"
    long_tables.store_table(series, one)
    table: long_tables.AnyTable = LongTable.join(series, [series] * (times - 1))
    if where == "memory":
        table = pl.concat([long_tables.frame_of(series)] * times)  # without a copy
    size = interrupted_when_a_group_is_written(table, tmp_path / "x.parquet")
    assert size < one.stat().st_size * times / 3


def test_an_interruption_is_heard_between_the_pieces_of_a_table(
    series: LongTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Frame(pl.DataFrame):
        def __init__(self, data: object) -> None:
            made.append(data)
            super().__init__(data)
            if len(made) == 2:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(long_tables, "pl", type("Polars", (), {"DataFrame": Frame, "concat": pl.concat}))
    assert len([*series.batches()]) > 3
    with pytest.raises(KeyboardInterrupt):
        long_tables.frame_of(series)
    assert len(made) == 2


def test_a_table_in_pieces_is_the_table(series: LongTable) -> None:
    assert long_tables.frame_of(series).equals(pl.DataFrame(series))
    empty = binhop.simulate("kh90", "lin", length="2k", seeds=1).held("series")
    assert long_tables.frame_of(empty).height == 0
    assert long_tables.frame_of(empty).columns == long_tables.frame_of(series).columns
