"""Tests exact counts of small committed traces. A file of counts is named after its trace and settings.

`mult.parquet` holds the first 500,000 references of mult2.2: processes, fork, exec, switches, shared text.
`strides.din` has 2,000 lines that walk, jump and conflict.

A changed count changes binhop's results. Find the reason, mark the change in CHANGELOG.md, delete the file of
counts and run `.venv/bin/python tests/golden/test_golden.py`, which writes the missing files. A new placement
policy has a run by itself, and needs such a file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import binhop

HERE = Path(__file__).parent

RUNS = [
    ("mult.parquet", "kh90", ["cache.l2.size=64KiB"]),
    ("mult.parquet", "kh90", ["cache.l2.size=128KiB", "cache.l2.ways=4", "placement.policy=first"]),
    ("mult.parquet", "kh90", ["memory.size=512KiB", "placement.pool=128KiB", "cache.l2.size=64KiB"]),
    ("mult.parquet", "zen-4k", ["cache.l2.size=64KiB", "cache.l3.size=256KiB"]),
    ("strides.din", "two-level", []),
    ("strides.din", "cachegrind-like", ["cache.l1d.size=1KiB", "cache.ll.size=4KiB"]),
    (
        "strides.din",
        "two-level",
        ["cache.l1d.size=1KiB", "cache.l1d.write=through", "cache.l1d.allocate=false"],
    ),
    ("strides.din", "two-level", ["cache.l1d.ways=4", "cache.l1d.replacement=plru", "cache.l2.size=8KiB"]),
]

PARAMETERS = {
    "colored-lists": ["placement.colors=4", "placement.pid-hash=true"],
    "buddy": ["placement.fragmentation=50"],
}
"""The parameters of the policies that have no pool."""

RUN_ABOVE = {"random", "first", "identity", "recorded"}
"""Without a setting kh90 has `random` and two-level has `identity`; `recorded` repeats a policy."""

RUNS += [
    (
        "mult.parquet",
        "kh90",
        [
            *("memory.page=4KiB", "memory.size=256KiB", "cache.l2.size=64KiB", f"placement.policy={policy}"),
            *PARAMETERS.get(policy, ["placement.pool=64KiB"]),
        ],
    )
    for policy in binhop.policies()["name"]
    if policy not in RUN_ABOVE
]


def file(trace: str, machine: str, settings: list[str]) -> Path:
    return HERE / ".".join([Path(trace).stem, machine, *settings, "csv"])


def counts(trace: str, machine: str, settings: list[str]) -> pl.DataFrame:
    """Returns a row for each metric that is a count, and a column for each of three seeds."""
    loaded = binhop.Machine.load(machine, settings)
    result = binhop.simulate(loaded, HERE / trace, seeds=3 if loaded.is_random else 1, threads=1)
    whole = result.results.filter(~pl.col("unit").str.contains("/")).with_columns(
        pl.col("value").cast(pl.Int64)
    )
    return whole.pivot("seed", index="metric", values="value")


@pytest.mark.parametrize(("trace", "machine", "settings"), RUNS, ids=lambda value: str(value))
def test_counts_are_what_they_were(trace: str, machine: str, settings: list[str]) -> None:
    path = file(trace, machine, settings)
    assert path.exists(), f"{path} is missing: run {sys.executable} {__file__}, which writes it"
    expected = pl.read_csv(path)
    now = counts(trace, machine, settings)
    assert now.columns == expected.columns
    different = now.join(expected, on="metric", how="full", coalesce=True).filter(
        ~pl.all_horizontal(
            pl.col(seed).eq_missing(pl.col(f"{seed}_right")) for seed in now.columns if seed != "metric"
        )
    )
    assert different.is_empty(), different


def test_every_golden_file_is_of_a_run() -> None:
    assert {path.name for path in HERE.glob("*.csv")} == {file(*run).name for run in RUNS}


if __name__ == "__main__":
    for run in RUNS:
        if not file(*run).exists():
            counts(*run).write_csv(file(*run))
