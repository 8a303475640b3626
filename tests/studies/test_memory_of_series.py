"""The memory of a study, and of a run that is resumed, does not grow with the number of intervals."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.conftest import long

if TYPE_CHECKING:
    from pathlib import Path

PEAK = """
import resource, sys, tempfile
from pathlib import Path
import binhop
from binhop import study
from binhop.resumable import simulated
from binhop.kept_runs import KeptRuns
from binhop.results import join

way, interval, out, seeds = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
out.mkdir()
length = 300_000
if way == "resumed run":
    machines, trace = [binhop.Machine.load("two-level")], binhop.Trace.of("lin")
    for _ in range(2):  # The second run is taken from the files of the first.
        options = {"seeds": seeds, "length": length, "interval": interval}
        (one,) = simulated(KeptRuns(out / "kept"), machines, trace, options)
    join([one, one]).write_tables(out)
else:
    text = f'''
name = "s"
title = "t"
seeds = {seeds}
length = {length}
interval = {interval}
[[part]]
name = "p"
workloads = ["lin"]
machine = "two-level"
axes = {{ "cache.l2.ways" = [1, 2] }}
[[part]]
name = "q"
workloads = ["lin"]
machine = "two-level"
seeds = 4
axes = {{ "cache.l2.ways" = [2, 1] }}
'''
    kept = out / "kept" if way == "resumed study" else None
    for _ in range(1 if kept is None else 2):
        result = study.run(study.plan(study.parse(text)), threads=1, kept=kept)
    result.write(out)
print(int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10)
"""

FEW, MANY = 60_000, 6
"""Instructions of an interval: the series of the smaller number is 10,000 times as long."""

MORE = 64 << 20
"""The most bytes that the longer series may take beyond the shorter one, whose tables fit into a batch.

A batch of each column, and what the allocators keep of it, is a third of that. The longer table has more than
1,500,000 rows, of 100 bytes or more."""


def peak(way: str, interval: int, place: Path, seeds: int) -> int:
    """Returns the most bytes of memory that a study or a run holds. It writes its tables to a directory."""
    arguments = [sys.executable, "-c", PEAK, way, str(interval), str(place), str(seeds)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(
    ("way", "seeds"),
    [long("study", 8), long("resumed study", 8), long("resumed run", 8), ("resumed run", 3)],
)
def test_memory_does_not_grow_with_the_number_of_intervals(way: str, seeds: int, tmp_path: Path) -> None:
    few = peak(way, FEW, tmp_path / "few", seeds)
    many = peak(way, MANY, tmp_path / "many", seeds)
    rows = pl.scan_parquet(tmp_path / "many" / "series.parquet").select(pl.len()).collect().item()
    assert rows > 1_500_000
    assert many - few <= MORE, f"{few >> 20} MiB, then {many >> 20} MiB"
