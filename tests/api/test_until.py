"""Tests `--until`: the results equal those of a run with the same number of seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binhop
from binhop.until import rounds, share

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

SMALL = binhop.Machine.load("kh90", ["cache.l2.size=64KiB"])


def width(result: binhop.Result, metric: str = "l2.mpi", confidence: float = 0.95) -> float:
    row = result.summary(confidence).filter(metric=metric).row(0, named=True)
    return (row["high"] - row["low"]) / 2 / row["mean"]


def tables(result: binhop.Result) -> list[pl.DataFrame]:
    return [result.results, result.series, result.processes]


@pytest.mark.parametrize("most", [2, 31, 32, 33, 64, 100, 1000, 1024])
def test_rounds_are_fixed_and_together_all_seeds(most: int) -> None:
    parts = [*rounds(most)]
    assert [seed for part in parts for seed in part] == list(range(most))
    assert all(part.stop in (32, 64, 128, 256, 512, 1024, most) for part in parts)


def test_a_share_is_read_as_people_write_it() -> None:
    assert share("2%") == share("0.02") == share(0.02) == 0.02
    assert share(".5 %") == 0.005
    assert share(1e-6) == 1e-6
    for wrong in ("0", "0%", "100%", "1", "2", "-2%", "2%%", "", "two", "1e-2"):
        with pytest.raises(binhop.RequestError, match="share of the mean"):
            share(wrong)


@pytest.mark.parametrize("plan", [{}, {"warmup": 5_000, "interval": 7_000, "threads": 2}], ids=["", "all"])
def test_it_stops_at_the_first_round_that_is_narrow_enough(lin: Path, plan: dict[str, int]) -> None:
    at = {n: binhop.simulate(SMALL, lin, seeds=n, **plan) for n in (32, 64, 128)}  # type: ignore[arg-type]
    widths = {n: width(result) for n, result in at.items()}
    assert widths[128] < widths[64] < widths[32], "the test needs a workload whose interval narrows"
    for n, goal in [(32, widths[32]), (64, widths[64]), (128, (widths[128] + widths[64]) / 2)]:
        found = binhop.simulate_until(SMALL, lin, until=goal, **plan)  # type: ignore[arg-type]
        assert found.seeds == list(range(n))
        for ours, theirs in zip(tables(found), tables(at[n]), strict=True):
            assert ours.equals(theirs)
        assert f"{n} placements were enough" in found.notes[-1]
        assert found.provenance["until"]["reached"]


def test_the_limit_is_said_plainly(lin: Path) -> None:
    found = binhop.simulate_until(SMALL, lin, until="0.01%", seeds=48)
    assert found.seeds == list(range(48))
    assert found.results.equals(binhop.simulate(SMALL, lin, seeds=48).results)
    assert "the limit of 48 placements came first" in found.notes[-1]
    assert f"±{100 * width(found):.3g}%" in found.notes[-1]
    assert not found.provenance["until"]["reached"]


def test_the_metric_and_the_confidence_are_the_users(lin: Path) -> None:
    metric = "os.faults"  # the same in every placement: narrow at once
    assert len(binhop.simulate_until(SMALL, lin, until="0.01%", metric=metric).seeds) == 32
    both = width(binhop.simulate(SMALL, lin, seeds=32), confidence=0.5)
    assert len(binhop.simulate_until(SMALL, lin, until=both, confidence=0.5).seeds) == 32
    assert len(binhop.simulate_until(SMALL, lin, until=both, confidence=0.95, seeds=64).seeds) == 64
    with pytest.raises(binhop.RequestError, match=r"l2\.mpi"):
        binhop.simulate_until(SMALL, lin, until="5%", metric="l3.mpi")


def test_nothing_random_needs_one_placement(lin: Path) -> None:
    found = binhop.simulate_until("two-level", lin, until="0.1%")
    assert found.seeds == [0]
    assert "nothing is random" in found.notes[-1]


def test_a_comparison_goes_on_until_the_difference_is_known(lin: Path) -> None:
    machines = {"large": "kh90", "small": SMALL, "none": "two-level"}
    at = {n: binhop.compare(machines, lin, seeds=n) for n in (32, 64)}

    def widest(comparison: binhop.Comparison) -> float:
        rows = comparison.summary.filter(metric="l2.mpi").to_dicts()
        return max((row["high"] - row["low"]) / 2 / row["baseline_mean"] for row in rows)

    assert widest(at[64]) < widest(at[32])
    for n, goal in [(32, widest(at[32])), (64, widest(at[64]))]:
        found = binhop.compare(machines, lin, until=goal)
        assert found.seeds == list(range(n))
        for name in ("differences", "summary"):
            assert getattr(found, name).equals(getattr(at[n], name)), name
        assert found.values.equals(at[n].values)
        assert f"{n} placements were enough" in found.notes[-1]
    short = binhop.compare(machines, lin, until="0.01%", seeds=40)
    assert "the limit of 40 placements came first" in short.notes[-1]
    assert "large's mean" in short.notes[-1]
    assert not short.provenance["until"]["reached"]


def test_an_undefined_metric_is_no_goal() -> None:
    from tests.conftest import LOAD, events

    with pytest.raises(binhop.RequestError, match="undefined"):
        binhop.simulate_until("kh90", events([(LOAD, 64, 4, 1)]), until="5%")
    with pytest.raises(binhop.RequestError, match="undefined"):
        binhop.compare(["kh90", SMALL], events([(LOAD, 64, 4, 1)]), until="5%")
