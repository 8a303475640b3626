"""Tests summaries bit for bit against Polars, and that a result is the same with and without Polars."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from binhop import _binhop
from binhop.results import join
from binhop.run import run_all
from binhop.student import student
from binhop.summary import KEYS, QUANTILES, points, summarise, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAN = float("nan")


def by_polars(results: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Returns the summary as Polars alone computes it.

    Undefined values are dropped before a quantile: Polars would add their number to the place of the quantile
    before it takes the fraction, which loses bits.
    """
    value = pl.col("value")
    found = results.group_by(KEYS, maintain_order=True).agg(
        n=value.count(),
        mean=value.mean(),
        deviation=value.std(ddof=1),
        min=value.min(),
        **{name: value.drop_nulls().quantile(q, interpolation="linear") for name, q in QUANTILES.items()},
        max=value.max(),
        best_seed=pl.col("seed").sort_by(value, nulls_last=True, maintain_order=True).first(),
        worst_seed=pl.col("seed").sort_by(-value, nulls_last=True, maintain_order=True).first(),
    )
    t = {n: student(n, confidence) for n in found["n"].unique()}
    half = pl.col("n").replace_strict(t, return_dtype=pl.Float64) * pl.col("deviation") / pl.col("n").sqrt()
    statistics = found.columns[len(KEYS) + 3 :]
    return found.with_columns(
        low=pl.col("mean") - half, high=pl.col("mean") + half, confidence=pl.lit(confidence)
    ).select(*KEYS, "n", "mean", "low", "high", "confidence", *statistics)


def made_up(values: list[list[float | None]]) -> pl.DataFrame:
    """Returns a tidy table with a metric for each list of values."""
    rows = [
        ("w", "m", "measured", seed, f"metric {number}", "misses", value)
        for number, of in enumerate(values)
        for seed, value in enumerate(of)
    ]
    schema = {
        "workload": pl.String,
        "machine": pl.String,
        "phase": pl.String,
        "seed": pl.UInt64,
        "metric": pl.String,
        "unit": pl.String,
        "value": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


DRAWS: dict[str, Callable[[random.Random], float | None]] = {
    "rates": lambda draw: draw.uniform(0.001, 0.02),
    "counts": lambda draw: float(draw.randrange(10**9)),
    "large counts": lambda draw: float(draw.randrange(2**60)),
    "ties": lambda draw: float(draw.randrange(4)),
    "undefined": lambda draw: draw.choice([None, None, 0.5, 0.25, 3.0]),
    "all magnitudes": lambda draw: draw.gauss(0, 1) * 10 ** draw.uniform(-200, 200),
    "zeros": lambda draw: draw.choice([0.0, -0.0]),
    "no number": lambda draw: draw.choice([NAN, None, 1.0, 2.0]),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_a_summary_is_that_of_polars_to_the_bit(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(60):
        sizes = [draw.choice([1, 2, 3, 7, 8, 31, 32, 33, 64, 200]) for _ in range(20)]
        results = made_up([[DRAWS[kind](draw) for _ in range(size)] for size in sizes])
        if draw.random() < 0.5:
            results = results.sort("seed", maintain_order=True)  # the rows of a metric lie apart
        for confidence in (0.9, 0.95):
            expected, found = by_polars(results, confidence), summarise(results, confidence)
            assert found.schema == expected.schema
            assert found.equals(expected), (expected, found)


def test_an_empty_table_has_an_empty_summary() -> None:
    nothing = made_up([])
    assert summarise(nothing).equals(by_polars(nothing, 0.95))
    assert summarise(nothing).schema == by_polars(nothing, 0.95).schema


def test_undefined_values_have_a_summary_of_the_first_seed() -> None:
    found = summary_of([5, 6], [None, None])
    assert (found["n"], found["best_seed"], found["worst_seed"]) == (0, 5, 5)
    assert {found[name] for name in ("mean", "low", "high", "min", *QUANTILES, "max")} == {None}


@pytest.fixture(scope="module")
def tables(lin: Path) -> list[_binhop.Table]:
    options: dict[str, Any] = {"seeds": 5, "warmup": 20_000, "length": 60_000}
    return [
        outcome.results for machine in ("kh90", "zen-4k") for _, outcome in run_all([machine], lin, options)
    ]


def test_the_columns_of_a_table_are_those_of_its_frame(tables: list[_binhop.Table]) -> None:
    for table in tables:
        frame = pl.DataFrame(table)
        assert frame.height > 200
        assert table.columns() == frame.to_dict(as_series=False)
        assert [*table.columns()] == frame.columns
        assert points(table) == points(frame)


def test_tables_are_joined_in_order(tables: list[_binhop.Table]) -> None:
    first, second = tables
    whole = _binhop.Table.join(first, [second, first])
    assert pl.DataFrame(whole).equals(pl.concat(map(pl.DataFrame, (first, second, first))))
    assert whole.columns() == pl.DataFrame(whole).to_dict(as_series=False)
    assert points(_binhop.Table.join(first, [])) == points(first)


def test_tables_of_other_columns_are_not_joined(lin: Path) -> None:
    ((_, outcome),) = run_all(["kh90"], lin, {"seeds": 1, "length": 2000}, log=True)
    assert outcome.placements is not None
    with pytest.raises(TypeError, match="different columns"):
        _binhop.Table.join(outcome.results, [outcome.placements])


def test_only_the_types_of_results_become_columns(lin: Path) -> None:
    ((_, outcome),) = run_all(["kh90"], lin, {"seeds": 1, "length": 2000}, log=True)
    assert outcome.placements is not None
    with pytest.raises(TypeError, match="UInt32"):
        outcome.placements.columns()


def test_a_result_says_the_same_before_and_after_its_frame_is_made(lin: Path) -> None:
    def told(result: binhop.Result) -> list[Any]:
        return [result.tables(0.9), result.notes, result.workloads, json.loads(result.to_json())]

    def made() -> binhop.Result:
        parts = [
            binhop.simulate("zen-4k", trace, seeds=8, warmup=1000, length=40_000) for trace in (lin, "tree")
        ]
        return join(parts)

    plain, framed = made(), made()
    assert framed.results.height == len(json.loads(plain.to_json())["rows"])
    assert isinstance(plain.held("results"), _binhop.Table)
    assert isinstance(framed.held("results"), pl.DataFrame)
    assert told(plain) == told(framed)
    assert plain.to_json() == framed.to_json()
    assert isinstance(plain.held("results"), _binhop.Table), "nothing of this needs a frame"
    assert plain.results.equals(framed.results)


def test_a_result_takes_another_frame(lin: Path) -> None:
    result = binhop.simulate("kh90", lin, seeds=2, length=10_000)
    assert result.workloads == ["lin"]
    result.results = result.results.with_columns(workload=pl.lit("other"))
    assert result.workloads == ["other"]
    assert result.tables()[0].title.startswith("other on kh90")


def test_a_result_of_chosen_rows_has_the_notes_of_its_run(lin: Path) -> None:
    result = binhop.simulate("kh90", lin, seeds=2, length=10_000)
    result.results = result.results.filter(metric="references")
    assert result.notes == result.own_notes != []


def test_values_keep_their_order_in_a_summary() -> None:
    """The mean depends on the order of the sum, so equal input gives equal bits."""
    values = [0.1 * number for number in range(33)]
    found = _binhop.summarise(values, [0.5])
    assert found.mean == by_polars(made_up([[*values]]), 0.95)["mean"][0]
    assert found.quantiles == [values[16]]
    assert math.isclose(found.mean or 0, math.fsum(values) / 33, rel_tol=1e-15)
