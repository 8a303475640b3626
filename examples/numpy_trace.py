"""Makes a trace with NumPy, of a matrix summed by rows or by columns, and simulates many page placements."""

import numpy as np
import polars as pl

import binhop

N = 512  # rows, and columns: 2 MiB of 8-byte numbers
BASE = 0x1000_0000
LOAD = 1


def trace(by_rows: bool) -> pl.DataFrame:
    """Returns the loads of a program that sums the matrix."""
    row, column = np.divmod(np.arange(N * N), N)
    element = row * N + column if by_rows else column * N + row
    count = len(element)
    return pl.DataFrame(
        {
            "op": np.full(count, LOAD, dtype=np.uint8),
            "addr": (BASE + 8 * element).astype(np.uint64),
            "size": np.full(count, 8, dtype=np.uint32),
            "count": np.ones(count, dtype=np.uint32),
        }
    )


machine = binhop.Machine.load("kh90", ["cache.l2.size=1MiB"])
for name, by_rows in [("rows", True), ("columns", False)]:
    result = binhop.simulate(machine, binhop.Trace.from_arrow(trace(by_rows), name), seeds=16)
    misses = result.summary().filter(metric="l2.load.misses")
    mean, least, most = (misses[column][0] for column in ("mean", "min", "max"))
    print(f"by {name:8} level-2 misses: mean {mean:.0f}, from {least:.0f} to {most:.0f}")
