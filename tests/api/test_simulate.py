from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

import binhop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def result(lin: Path) -> binhop.Result:
    return binhop.simulate("kh90", lin, seeds=8, interval=10_000)


def test_the_result_is_a_tidy_table(result: binhop.Result) -> None:
    assert result.results.columns == ["workload", "machine", "phase", "seed", "metric", "unit", "value"]
    assert result.results["seed"].unique().to_list() == list(range(8))
    assert result.results["workload"].unique().to_list() == ["lin"]
    assert isinstance(result.to_arrow(), pa.Table)
    assert not result.results.filter(pl.col("value").is_nan()).height


def test_the_summary_is_what_the_textbook_says(result: binhop.Result) -> None:
    values = result.results.filter(metric="l2.mpi").sort("seed")["value"]
    row = result.summary(0.9).row(by_predicate=pl.col("metric") == "l2.mpi", named=True)
    half = 1.8945786 * values.std() / 8**0.5  # t(0.95, 7)
    assert row["n"] == 8
    assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert row["median"] == pytest.approx(values.median(), rel=1e-12)
    assert row["high"] - row["mean"] == pytest.approx(half, rel=1e-6)
    assert row["mean"] - row["low"] == pytest.approx(half, rel=1e-6)
    assert row["min"] == values[row["best_seed"]] == values.min()
    assert row["max"] == values[row["worst_seed"]] == values.max()


def test_one_placement_has_no_interval(lin: Path) -> None:
    summary = binhop.simulate("kh90", lin, seeds=1).summary().filter(metric="l2.mpi")
    assert summary["low"][0] is None
    assert summary["high"][0] is None
    assert summary["median"][0] == summary["mean"][0]


def test_a_series_adds_up_to_the_whole(result: binhop.Result) -> None:
    series = result.series.filter(metric="l2.mpi")
    misses = series.group_by("seed").agg(n=(pl.col("value") * pl.col("instructions")).sum())
    for seed, n in misses.iter_rows():
        demand = sum(
            result.results.filter(seed=seed, metric=f"l2.{kind}.misses")["value"].sum()
            for kind in ("fetch", "load", "store")
        )
        assert round(n) == demand


def test_a_seed_run_alone_is_the_same(result: binhop.Result, lin: Path) -> None:
    alone = binhop.simulate("kh90", lin, seeds=[5])
    assert alone.results.equals(result.results.filter(seed=5))


def test_seeds_differ_where_placement_is_random_and_there_is_one_where_it_is_not(lin: Path) -> None:
    assert binhop.simulate("two-level", lin).seeds == [0]
    assert len(binhop.simulate("kh90", lin).seeds) == 32


def test_the_warm_up_is_reported_apart(lin: Path) -> None:
    whole = binhop.simulate("two-level", lin)
    parts = binhop.simulate("two-level", lin, warmup=20_000)
    assert parts.results["phase"].unique(maintain_order=True).sort().to_list() == ["measured", "warm-up"]
    counts = (
        parts.results.filter(~pl.col("unit").str.contains("/")).group_by("metric").agg(pl.col("value").sum())
    )
    for metric, value in counts.iter_rows():
        assert value == whole.value(metric), metric


def test_the_length_is_kept_to_a_row(lin: Path) -> None:
    assert 12_000 < binhop.simulate("two-level", lin, length=12_345).value("references") <= 12_345


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seeds": 0}, "at least one"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [1, 1]}, "once"),
        ({"seeds": [-1]}, "a seed is a number"),
        ({"threads": 0}, "thread"),
        ({"length": 0}, "at least one"),
        ({"length": -5}, "not negative"),
        ({"length": 100, "warmup": 100}, "warm-up"),
        ({"interval": 0}, "at least one"),
    ],
)
def test_a_wrong_plan_is_refused(lin: Path, arguments: dict[str, object], says: str) -> None:
    with pytest.raises(binhop.RequestError, match=says):
        binhop.simulate("kh90", lin, **arguments)  # type: ignore[arg-type]


def test_progress_is_reported_and_may_stop_the_run(lin: Path) -> None:
    reports: list[tuple[int, int | None]] = []
    binhop.simulate("kh90", lin, seeds=2, progress=lambda done, of: reports.append((done, of)))
    assert reports
    assert all(done >= 0 for done, _ in reports)

    def stop(done: int, of: int | None) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        binhop.simulate("kh90", lin, seeds=2, progress=stop)


def test_other_python_threads_run_meanwhile() -> None:
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    binhop.simulate("kh90", "lin", seeds=4, length=5_000_000, threads=1)
    end = time.monotonic()
    done.set()
    thread.join()
    assert sum(start < at < end for at in ticks) >= (end - start) / 0.1


def test_a_result_reads_well(result: binhop.Result) -> None:
    text = repr(result)
    assert "lin on kh90, 8 placements" in text
    assert "l2: " in text
    assert "misses per 1000 instructions" in text


def test_json_holds_integers_and_nulls(result: binhop.Result) -> None:
    whole = json.loads(result.to_json())
    assert whole["schema"] == 1
    assert len(whole["rows"]) == result.results.height
    counts = [row for row in whole["rows"] if "/" not in row["unit"]]
    assert counts
    assert all(isinstance(row["value"], int) for row in counts)
    assert "NaN" not in result.to_json()
    assert whole["provenance"]["seeds"] == list(range(8))
    assert binhop.Machine.parse(whole["provenance"]["description"]).name == "kh90"


def test_what_is_undefined_is_null_not_nought() -> None:
    from tests.conftest import LOAD, events

    result = binhop.simulate("two-level", events([(LOAD, 64, 4, 1)]))
    assert result.value("instructions") == 0
    assert result.value("l2.mpi") is None
    assert result.value("l2.load.misses") == 1


def test_an_unknown_metric_names_the_known_ones(result: binhop.Result) -> None:
    with pytest.raises(KeyError, match=r"l2\.mpi"):
        result.value("l9.mpi")
