"""Tests exact counts of small committed traces. A file of counts is named after its trace and settings.

`mult.parquet` holds the first 500,000 references of mult2.2: processes, fork, exec, switches, shared text.
`strides.din` has 2,000 lines that walk, jump and conflict.

A changed count changes binhop's results. Find the reason, mark the change in CHANGELOG.md, then run
`.venv/bin/python tests/golden/test_golden.py` to write the files anew.
"""

from __future__ import annotations

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
    *(
        (
            "mult.parquet",
            "kh90",
            ["memory.page=4KiB", "memory.size=256KiB", "cache.l2.size=64KiB", *placement],
        )
        for placement in [
            ["placement.policy=page-coloring-equal", "placement.pool=64KiB"],
            ["placement.policy=page-coloring-pid-hash", "placement.pool=64KiB"],
            ["placement.policy=page-coloring-offset", "placement.pool=64KiB"],
            ["placement.policy=bin-hopping", "placement.pool=64KiB"],
            ["placement.policy=sequential", "placement.pool=64KiB"],
            ["placement.policy=hierarchical", "placement.pool=64KiB"],
            ["placement.policy=colored-lists", "placement.colors=4", "placement.pid-hash=true"],
            ["placement.policy=buddy", "placement.fragmentation=50"],
        ]
    ),
]


def test_every_policy_has_its_counts() -> None:
    run = {setting.removeprefix("placement.policy=") for _, _, settings in RUNS for setting in settings}
    # Without a setting kh90 has random and two-level has identity; `recorded` repeats a policy.
    assert set(binhop.policies()["name"]) - run == {"random", "identity", "recorded"}


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
    expected = pl.read_csv(file(trace, machine, settings))
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
        counts(*run).write_csv(file(*run))
