"""Compares binhop with a naive loop in C and pycachesim on rows of one reference (`make bench`).

The trace is a recording of a compiler. It is exported as din and imported again, then split into rows of
one reference. The machine is two-level: split level 1, unified level 2, direct-mapped, without placement.
binhop gets the rows as a Polars frame, and the C programs get the same columns as arrays in memory. Each
uses one thread, and each figure is a median of five runs. The driver `native.c` contains the naive loop,
which keeps only tags. It is compiled together with pycachesim's core, which comes from pycachesim's source
distribution.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import binhop

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
REFERENCES = 40_000_000
PYCACHESIM = "pycachesim==0.3.1"
HERE = Path(__file__).parent
PROGRAM = HERE.parent / "examples" / "gallery" / "words.c"
WORD = 4
LABELS = {"naive": "a naive loop in C", "pycachesim": f"{PYCACHESIM.replace('==', ' ')}, its C core"}
# The three simulators must count equal misses of level 1, for instructions and for data.
MISSES = [["l1i.fetch.misses"], ["l1d.load.misses", "l1d.store.misses"]]


def command(*arguments: str) -> None:
    """Runs a command of binhop."""
    subprocess.run([sys.executable, "-m", "binhop", *arguments], check=True)


def recorded(directory: Path) -> pl.DataFrame:
    """Returns a compiler's references as din has them: one word in each row."""
    trace, din, again = (str(directory / name) for name in ("cc.parquet", "cc.din", "again.parquet"))
    compiler = ("gcc", "-O2", "-c", str(PROGRAM), "-o", str(directory / "words.o"))
    command("record", "--quiet", "--limit", str(REFERENCES), "-o", trace, "--", *compiler)
    command("export", trace, "--to", "din", "-o", din, "--quiet")
    command("import", din, "-o", again, "--quiet")
    rows = pl.read_parquet(again, columns=["op", "addr", "size", "count"])
    # The importer joins successive instructions into one row.
    number = pl.int_ranges(0, "count", dtype=pl.UInt64).alias("number")
    single = rows.with_columns(number).explode("number")
    word, one = pl.lit(WORD, dtype=pl.UInt32), pl.lit(1, dtype=pl.UInt32)
    return single.select(
        "op", pl.col("addr") + WORD * pl.col("number"), word.alias("size"), one.alias("count")
    ).rechunk()


def compiled(directory: Path) -> Path:
    """Compiles the driver, with pycachesim's core if it can be downloaded, and returns its path."""
    driver, core = directory / "native", []
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    got = subprocess.run([*pip, "--dest", str(directory), PYCACHESIM], capture_output=True, text=True)
    archives = list(directory.glob("pycachesim-*.tar.gz"))
    if got.returncode == 0 and archives:
        with tarfile.open(archives[0]) as archive:
            archive.extractall(directory, filter="data")
        (source,) = directory.glob("pycachesim-*/cachesim/backend.c")
        core = ["-DNO_PYTHON", "-DPYCACHESIM", f"-I{source.parent}", str(source)]
    else:
        print("the sources of pycachesim cannot be downloaded", file=sys.stderr)
    subprocess.run(["cc", "-O3", "-o", str(driver), str(HERE / "native.c"), *core], check=True)
    return driver


def native(driver: Path, rows: pl.DataFrame) -> dict[str, tuple[float, list[int]]]:
    """Returns each simulator's seconds, and its level-1 misses of instructions and of data."""
    columns = driver.with_name("columns")
    with columns.open("wb") as file:
        file.write(rows.height.to_bytes(8, sys.byteorder))
        for name in ("addr", "size", "op"):
            file.write(rows[name].to_numpy().tobytes())
    said = subprocess.run([driver, columns], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in said.splitlines()]
    return {name: (float(seconds), [int(count) for count in misses]) for name, seconds, *misses in lines}


def median(run: Callable[[], object]) -> float:
    """Returns the median time in seconds, after a first run that is not counted."""
    run()
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Measures all three simulators and prints the table."""
    if not all(map(shutil.which, ("valgrind", "gcc", "cc"))):
        print("valgrind and gcc are needed to record a compiler", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rows = recorded(directory)
        others = native(compiled(directory), rows)
    ours = median(lambda: binhop.simulate("two-level", rows, threads=1))
    result = binhop.simulate("two-level", rows, threads=1)
    misses = [sum(int(result.value(metric) or 0) for metric in metrics) for metrics in MISSES]
    print(f"\n{rows.height / 1e6:.1f} M references of a compiler, one a row, on two-level: M references/s")
    print(f"{'binhop, from a Polars frame':42} {rows.height / ours / 1e6:8.1f}")
    for way, (seconds, counted) in others.items():
        if counted != misses:
            raise AssertionError(f"{way} counts misses {counted}, binhop {misses}")
        print(f"{LABELS[way]:42} {rows.height / seconds / 1e6:8.1f}   binhop has {seconds / ours:.2f} x")


if __name__ == "__main__":
    main()
