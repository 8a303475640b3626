"""Tests the arithmetic of switches on tables that are small enough to add up by hand."""

from __future__ import annotations

import polars as pl
import pytest
from scipy.stats import t

from binhop import switch_cost
from tests.made_up_switches import Segment, at_the_start, costs_of, curves_of

EARLY = Segment(1, 0, "none", 500, at_the_start(100, 100))
"""What ran before the first switch: it counts in total cycles alone."""
FIRST = Segment(1, 0, "involuntary", 2_000, at_the_start(300, 100))
SECOND = Segment(2, 0, "system-call", 1_500, at_the_start(600, 0), syscall=7)
THIRD = Segment(2, 0, "system-call", 400, at_the_start(50, 40), syscall=0, truncated=True)
ALL = [EARLY, FIRST, SECOND, THIRD]


def one(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    (row,) = frame.filter(**where).to_dicts()
    return row


def test_a_switch_costs_its_excess() -> None:
    whole = one(switch_cost.costs_by(costs_of(ALL)))
    assert whole["switches"] == 3
    assert whole["instructions"] == 3_900
    assert (whole["shared"], whole["private"]) == (3_900 + 950, 3_900 + 140)
    assert whole["excess"] == 810
    assert whole["cost"] == 270
    assert whole["length"] == 1_300


def test_causes_and_calls_and_processes_add_up() -> None:
    costs = costs_of(ALL)
    causes = switch_cost.costs_by(costs, "cause", "syscall")
    assert causes.select("cause", "syscall", "switches", "excess").rows() == [
        ("system-call", 7, 1, 600),
        ("involuntary", None, 1, 200),
        ("system-call", 0, 1, 10),
    ]
    assert causes["share"].to_list() == pytest.approx([600 / 810, 200 / 810, 10 / 810])
    processes = switch_cost.costs_by(costs, "asid", "life")
    assert processes.select("asid", "switches", "excess", "cost").rows() == [
        (2, 2, 610, 305),
        (1, 1, 200, 200),
    ]


def test_levels_add_up_to_the_excess() -> None:
    levels = switch_cost.costs_by_level(costs_of(ALL))
    assert levels["excess"].sum() == 810
    assert levels.select("level", "kind", "excess", "cost").rows() == [
        ("memory", "fetch", 0, 0),
        ("memory", "data", 810, 270),
        ("write-buffer", None, 0, 0),
    ]
    assert levels["share"].to_list() == [0, 1, 0]


def test_misses_and_lines_of_a_cache() -> None:
    row = one(switch_cost.costs_by_cache(costs_of(ALL)))
    assert (row["shared"], row["private"]) == (30 + 60 + 5, 10 + 4)
    assert row["extra"] == row["replaced"] == 27
    assert row["reordered"] == 0
    assert row["held"] == 4 * 81 / 3
    assert (row["lost"], row["restored"]) == (0.5, 0.5)


def test_an_interval_weighs_a_segment_by_its_length() -> None:
    curves = switch_cost.intervals(switch_cost.all_segments(curves_of(ALL)).filter(interval=1_000))
    first, second = curves.to_dicts()
    assert (first["segments"], first["complete"], first["instructions"]) == (3, 2, 2_400)
    assert first["cpi_shared"] == pytest.approx(1 + 950 / 2_400)
    assert first["excess"] == pytest.approx(810 / 2_400)
    assert first["cumulative"] == pytest.approx(810 / 2.4)
    assert (second["instructions"], second["complete"], second["excess"]) == (1_500, 1, 0)
    assert second["since"] == 2_000
    assert (first["alive"], second["alive"]) == pytest.approx((2 / 3, 1 / 3))
    assert (first["max_shared"], first["max_private"]) == (1_600, 1_100)


def test_the_deviation_is_that_of_the_segments_weighed_by_length() -> None:
    first = switch_cost.intervals(switch_cost.all_segments(curves_of(ALL)).filter(interval=1_000))[
        0
    ].to_dicts()[0]
    mean = 3_350 / 2_400
    cpi = [(1_000, 1.3), (1_000, 1.6), (400, 1.125)]
    variance = sum(length * (each - mean) ** 2 for length, each in cpi) / 2_400
    assert first["deviation_shared"] == pytest.approx(variance**0.5)
    steady = Segment(1, 0, "involuntary", 1_000, at_the_start(0, 0))
    flat = switch_cost.intervals(curves_of([steady]))
    assert flat["deviation_shared"].to_list() == [0] * flat.height


def test_the_documents_cost_ends_where_a_tenth_of_the_segments_is_left() -> None:
    long = Segment(1, 0, "involuntary", 3_000, lambda start, stop: (stop - start, 0))
    short = Segment(2, 0, "system-call", 1_000, at_the_start(100, 0))
    curves = switch_cost.all_segments(curves_of([long] + 9 * [short]))
    # A tenth is alive at 3,000: the first interval holds (1,000 + 900) / 10,000 excess cycles an instruction.
    cost = one(switch_cost.average_costs(curves), interval=1_000)
    assert cost["segments"] == 10
    assert cost["cut"] == 3_000
    assert cost["cost"] == pytest.approx(190 + 1_000 + 1_000)
    assert cost["reached"]
    fewer = switch_cost.all_segments(curves_of([long] + 10 * [short]))
    cut = one(switch_cost.average_costs(fewer), interval=1_000)
    assert (cut["cut"], cut["cost"]) == (1_000, pytest.approx(2_000 / 11))
    # Fewer than a tenth are as long as one interval of 10,000.
    assert one(switch_cost.average_costs(curves), interval=10_000)["cost"] is None


def test_an_integral_that_does_not_reach_its_end_says_so() -> None:
    forever = Segment(1, 0, "involuntary", 250_000, lambda start, stop: (stop - start, 0))
    costs = switch_cost.average_costs(switch_cost.all_segments(curves_of([forever])))
    assert costs.select("interval", "cut", "reached").rows() == [
        (1_000, 100_000, False),
        (10_000, 250_000, True),
    ]
    assert switch_cost.interval_length(curves_of([forever])) == 10_000
    assert switch_cost.interval_length(curves_of(ALL)) == 1_000


def test_both_overheads() -> None:
    (row,) = switch_cost.overheads(costs_of(ALL), curves_of(ALL)).to_dicts()
    assert row["cycles"] == 4_400 + 950 + 100  # with what ran before the first switch
    assert row["exact"] == 270
    assert row["overhead"] == pytest.approx(810 / 5_450)
    assert (row["returning"], row["overhead_returning"]) == (270, row["overhead"])
    assert row["interval"] == 1_000
    assert row["document"] == pytest.approx(810 / 2.4)
    assert row["cut"] == 2_000
    assert row["overhead_document"] == pytest.approx(810 / 2.4 * 3 / 5_450)
    assert (row["short"], row["truncated"], row["same"], row["lives"]) == (1, 1, 0, 2)
    assert row["per_process"] == (200 + 305) / 2
    # The life 2 of 1: its curve has 610 excess cycles in 1,400 instructions of the first 1,000.
    assert row["per_process_document"] == pytest.approx((200 + 1_000 * 610 / 1_400) / 2)


def test_first_segments_are_told_apart_and_shares_are_of_what_costs() -> None:
    new = Segment(3, 0, "start", 1_000, at_the_start(0, 90))
    (row,) = switch_cost.overheads(costs_of([*ALL, new]), curves_of([*ALL, new])).to_dicts()
    assert (row["switches"], row["exact"], row["returning"]) == (4, 180, 270)
    causes = switch_cost.costs_by(costs_of([*ALL, new]), "cause")
    assert dict(causes.select("cause", "share").iter_rows()) == pytest.approx(
        {"system-call": 610 / 810, "involuntary": 200 / 810, "start": -90 / 810}
    )


def test_intervals_are_over_placements() -> None:
    seeds = [
        switch_cost.costs_by(
            costs_of([Segment(1, 0, "start", 1_000, at_the_start(100 + 10 * seed, 0))], seed=seed)
        )
        for seed in range(4)
    ]
    (row,) = switch_cost.estimates(pl.concat(seeds), ["cost"], confidence=0.9).to_dicts()
    assert (row["n"], row["mean"]) == (4, 115)
    half = t.ppf(0.95, 3) * pl.Series([100, 110, 120, 130]).std() / 2
    assert (row["low"], row["high"]) == pytest.approx((115 - half, 115 + half))
    (single,) = switch_cost.estimates(seeds[0], ["cost"]).to_dicts()
    assert (single["mean"], single["low"]) == (100, None)


def test_what_runs_before_the_first_switch_is_no_switch() -> None:
    assert not switch_cost.has_switches(costs_of([EARLY]))
    assert switch_cost.has_switches(costs_of(ALL))


def test_nothing_is_divided_by_zero() -> None:
    idle = [Segment(1, 0, "start", 1_000, at_the_start(0, 0))]
    (row,) = switch_cost.overheads(costs_of(idle), curves_of(idle)).to_dicts()
    assert (row["exact"], row["overhead"], row["document"]) == (0, 0, 0)
    assert switch_cost.costs_by(costs_of(idle), "cause")["share"].to_list() == [None]
    assert one(switch_cost.costs_by_cache(costs_of(idle)))["lost"] is None
