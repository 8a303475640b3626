"""pycachesim beside binhop on one hierarchy and one trace: `make bench` prints it below the Rust bench.

Two direct-mapped levels (machine two-level), in both cases called from Python. pycachesim has no placement
and no split level 1 in one call, so it gets the data references through one level 1, in one batch of
addresses that is built beforehand; binhop gets the same references, and places pages on kh90 as well.
Medians of five runs.
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
LENGTH = 4_000_000
LOAD = 1


def data_references() -> pl.DataFrame:
    """The loads and stores of a workload's first references, all as loads, as a table in memory."""
    kept, seen = [], 0
    for batch in binhop.Trace.workload("mult2.2").batches():
        data = batch.filter(pl.col("op").is_in([LOAD, 2])).select("op", "addr", "size", "count")
        kept.append(
            data.with_columns(
                op=pl.lit(LOAD, dtype=pl.UInt8), addr=pl.col("addr") // 4 * 4, size=pl.lit(4, dtype=pl.UInt32)
            )
        )
        seen += len(data)
        if seen >= LENGTH:
            return pl.concat(kept).head(LENGTH)
    raise AssertionError("a workload never ends")


def median(run: Callable[[], object]) -> float:
    """Million references per second."""
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return LENGTH / statistics.median(seconds) / 1e6


def pycachesim(addresses: list[int]) -> Callable[[], object]:
    """Its simulator on two-level's data side, called once with the whole batch."""
    from cachesim import Cache, CacheSimulator, MainMemory

    def run() -> None:
        memory = MainMemory()
        l2 = Cache("l2", (1 << 20) // 128, 1, 128, "LRU")
        l1 = Cache("l1", (32 << 10) // 32, 1, 32, "LRU", load_from=l2, store_to=l2)
        memory.load_to(l2)
        memory.store_from(l2)
        CacheSimulator(l1, memory).load(addresses, length=4)

    return run


def main() -> None:
    """Prints the table."""
    table = data_references()
    rows = [
        ("binhop two-level, from an Arrow table", lambda: binhop.simulate("two-level", table, threads=1)),
        ("binhop kh90, 1 placement", lambda: binhop.simulate("kh90", table, seeds=1, threads=1)),
        ("binhop kh90, 32 placements, each", lambda: binhop.simulate("kh90", table, seeds=32, threads=1)),
    ]
    print(
        f"\n{LENGTH / 1e6:.0f} M data references of mult2.2, one thread, called from Python: M references/s"
    )
    for name, run in rows:
        print(f"{name:42} {median(run) * (32 if 'each' in name else 1):8.1f}")
    try:
        import cachesim  # noqa: F401
    except ImportError:
        print("pycachesim is not installed", file=sys.stderr)
        return
    addresses = table["addr"].to_list()
    print(f"{'pycachesim 0.3.1, two levels, one batch':42} {median(pycachesim(addresses)):8.1f}")


if __name__ == "__main__":
    main()
