"""Compares the speed of binhop and pycachesim on one machine and one trace; `make bench` prints the table.

The machine is two-level: split level 1, unified level 2, direct-mapped. Both simulators are called from
Python with the whole trace in memory. pycachesim takes a batch of loads for one level 1. It therefore gets
two lists of addresses, of all fetches and of all data references; the time to build the lists is not
counted. pycachesim has no page placement. binhop gets the events as an Arrow table, and on kh90 it also
places pages. Figures are medians of five runs.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import polars as pl

import binhop

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
LENGTH = 6_000_000
FETCH, LOAD, STORE = 0, 1, 2


def references() -> pl.DataFrame:
    """Returns a workload's first references as a table: aligned 4-byte words without system events."""
    kept, seen = [], 0
    for batch in binhop.Trace.workload("mult2.2").batches():
        rows = batch.filter(pl.col("op").is_in([FETCH, LOAD, STORE])).select("op", "addr", "size", "count")
        data = pl.col("op") != FETCH
        word = pl.when(data).then(pl.lit(4, dtype=pl.UInt32)).otherwise("size").alias("size")
        kept.append(rows.with_columns(pl.col("addr") // 4 * 4, word))
        seen += rows["count"].sum()
        if seen >= LENGTH:
            return pl.concat(kept)
    raise AssertionError("a workload never ends")


def addresses(table: pl.DataFrame) -> tuple[list[int], list[int]]:
    """Returns the addresses of all instructions and of all data references."""
    runs = table.filter(pl.col("op") == FETCH)
    words = runs.select(pl.int_ranges("addr", pl.col("addr") + 4 * pl.col("count"), 4).alias("at")).explode(
        "at"
    )
    return words["at"].to_list(), table.filter(pl.col("op") != FETCH)["addr"].to_list()


def median(run: Callable[[], object], count: int) -> float:
    """Returns the speed of a run in million references per second."""
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds) / 1e6


def pycachesim(fetches: list[int], data: list[int]) -> Callable[[], object]:
    """Returns a function that simulates two-level with pycachesim, in one call for each level 1."""
    from cachesim import Cache, CacheSimulator, MainMemory

    def run() -> None:
        memory = MainMemory()
        l2 = Cache("l2", (1 << 20) // 128, 1, 128, "LRU")
        memory.load_to(l2)
        memory.store_from(l2)
        for batch in (fetches, data):
            l1 = Cache("l1", (32 << 10) // 32, 1, 32, "LRU", load_from=l2, store_to=l2)
            CacheSimulator(l1, memory).load(batch, length=4)

    return run


def main() -> None:
    """Measures both simulators and prints the table."""
    table = references()
    count = int(table["count"].sum())
    rows = [
        ("binhop two-level, from an Arrow table", 1, lambda: binhop.simulate("two-level", table, threads=1)),
        ("binhop kh90, 1 placement", 1, lambda: binhop.simulate("kh90", table, seeds=1, threads=1)),
        ("binhop kh90, 32 placements, each", 32, lambda: binhop.simulate("kh90", table, seeds=32, threads=1)),
    ]
    print(f"\n{count / 1e6:.1f} M references of mult2.2, one thread, called from Python: M references/s")
    for name, placements, run in rows:
        print(f"{name:42} {placements * median(run, count):8.1f}")
    try:
        fetches, data = addresses(table)
        theirs = median(pycachesim(fetches, data), count)
        print(f"{'pycachesim 0.3.1 on two-level, in batches':42} {theirs:8.1f}")
    except ImportError:
        print("pycachesim is not installed", file=sys.stderr)


if __name__ == "__main__":
    main()
