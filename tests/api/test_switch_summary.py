"""Tests the summary of switches, its tables, and its picture, on tables that are made up."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from binhop.report.style import specification
from binhop.report.switches import switch_charts, switch_words
from binhop.switch_cost import to_one_end
from binhop.switch_summary import UNITS, costliest_pages, mean_curves, summary
from binhop.switching import SwitchResult, SwitchTables
from binhop.tables import rendered
from binhop.tables.switches import cost_tables
from tests.made_up_switches import Segment, at_the_start, costs_of, curves_of, pages_of

SEEDS = range(3)


def segments(seed: int, lives: int = 11) -> list[Segment]:
    """Returns segments whose excess depends a little on the placement."""
    made = [Segment(1, 0, "none", 500, at_the_start(100, 100))]
    for number in range(40):
        cause = ("involuntary", "system-call", "page-fault", "start")[number % 4]
        waits = at_the_start(12_000 + 40 * seed, 2_000, within=20_000 + number)
        call = number if cause == "system-call" else None
        made.append(Segment(1 + number % lives, 0, cause, 3_000 * number + 400, waits, syscall=call))
    return made


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    costs = pl.concat([costs_of(segments(seed), seed=seed) for seed in SEEDS])
    curves = pl.concat([curves_of(segments(seed), seed=seed) for seed in SEEDS])
    return costs, curves, pl.concat([pages_of(seed=seed) for seed in SEEDS])


Tables = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def test_groups_of_a_summary_add_up(tables: Tables) -> None:
    rows = summary(tables[0], tables[1])
    whole = rows.filter(group="all", metric="excess")["mean"].item()
    for group in ("cause", "process", "level"):
        assert rows.filter(group=group, metric="excess")["mean"].sum() == pytest.approx(whole)
        assert rows.filter(group=group, metric="share")["mean"].sum() == pytest.approx(1)
    for metric in ("excess", "share"):
        calls = rows.filter(group="call", metric=metric)["mean"].sum()
        of_cause = rows.filter(group="cause", cause="system-call", metric=metric)["mean"].item()
        assert calls == pytest.approx(of_cause)
    assert rows["metric"].is_in([*UNITS]).all()
    for group in ("cause", "process"):
        excess = rows.filter(group=group, metric="excess")["mean"].to_list()
        assert all(before >= after for before, after in pairwise(excess))


def test_a_placement_with_little_excess_adds_little_to_shares() -> None:
    def placement(seed: int, excess: dict[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
        made = [Segment(1, 0, cause, 1_000, at_the_start(waits, 0)) for cause, waits in excess.items()]
        return costs_of(made, seed=seed), curves_of(made, seed=seed)

    both = [
        placement(0, {"involuntary": 990, "page-fault": 0}),
        placement(1, {"involuntary": 0, "page-fault": 10}),
    ]
    costs, curves = (pl.concat(tables) for tables in zip(*both, strict=True))
    shares = summary(costs, curves).filter(group="cause", metric="share")
    assert shares.select("cause", "n", "mean", "low", "high").rows() == [
        ("involuntary", 2, 0.99, None, None),
        ("page-fault", 2, 0.01, None, None),
    ]


def test_a_cause_of_one_placement_counts_once() -> None:
    def placement(seed: int, *causes: tuple[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
        made = [Segment(1, 0, cause, 1_000, at_the_start(waits, 0)) for cause, waits in causes]
        return costs_of(made, seed=seed), curves_of(made, seed=seed)

    both = [placement(0, ("involuntary", 100), ("page-fault", 150)), placement(1, ("involuntary", 100))]
    costs, curves = (pl.concat(tables) for tables in zip(*both, strict=True))
    shares = summary(costs, curves).filter(group="cause", metric="share")
    assert shares.select("cause", "n", "mean").rows() == [
        ("involuntary", 2, pytest.approx(200 / 350)),
        ("page-fault", 1, pytest.approx(150 / 350)),
    ]


def test_every_figure_has_an_interval_over_placements(tables: Tables) -> None:
    row = summary(tables[0], tables[1], 0.9).row(0, named=True)
    assert (row["n"], row["confidence"]) == (3, 0.9)
    cost = summary(tables[0], tables[1]).filter(group="all", metric="exact").row(0, named=True)
    assert cost["low"] < cost["mean"] < cost["high"]
    one = summary(costs_of(segments(0)), curves_of(segments(0)))
    assert one["low"].is_null().all()


def test_pages_are_ranked_by_their_excess(tables: Tables) -> None:
    code = costliest_pages(tables[2], 2)
    assert code.select("segment", "excess", "fetches").rows() == [
        ("libc.so.6", 8_000, 500),
        ("text of sort", 4_001, 900),
    ]
    assert code["share"].to_list() == pytest.approx([8_000 / 12_001, 4_001 / 12_001])


def test_the_tables_name_what_costs_most_and_count_the_rest(tables: Tables) -> None:
    facts = {"cycle_time_ns": 40.0, "processes": {"w": {"2": "/usr/bin/sort -n numbers"}}}
    whole, causes, processes, levels, caches, code = cost_tables(*tables, facts)
    assert whole.title == "w on m: 40 switches, 58 900 instructions between two, 3 placements"
    names = [row[0].strip() for row in whole.rows]
    assert "work of Ultrix for a switch (MB90 §6)" in names
    assert next(row for row in whole.rows if row[0].startswith("exchange"))[1:] == ("3 250", "", "130")
    named = {"involuntary", "page fault", "system call", "start", "  2 more"}
    assert named <= {row[0] for row in causes.rows}
    assert [row[0] for row in processes.rows][-1] == "3 more"
    assert any(row[0] == "2 sort" for row in processes.rows)
    assert [row[0] for row in levels.rows] == ["memory, fetch", "memory, data", "write buffer"]
    assert caches.rows[0][0] == "l1"
    assert [row[0] for row in code.rows] == ["0x7f0000001000", "0x400000"], "the third has no excess"


def test_the_tables_fit_80_columns_and_every_form(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    from binhop.cli import show

    large = tables[0].with_columns(pl.col("^.*(segments|instructions|cycles|misses|lines).*$") * 1000)
    for facts in ({}, {"cycle_time_ns": 40.0}):
        made = cost_tables(large, *tables[1:], facts)
        for table in made:
            show.print_table(table)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
        for form in ("md", "latex"):
            assert "involuntary" in rendered(made, [], form)


def test_a_process_number_with_several_lives_names_the_life(tables: Tables) -> None:
    life = pl.when(pl.col("cause") == "start").then(1).otherwise(0).cast(pl.UInt32)
    costs = tables[0].with_columns(life=life)
    _, _, processes, *_ = cost_tables(costs, *tables[1:], {})
    names = [row[0] for row in processes.rows]
    assert names[-1] == "13 more"
    assert {name.partition(".")[2] for name in names[:-1]} == {"0", ""}, "a number with one life is enough"


def test_the_picture_has_a_curve_for_each_cause_up_to_the_cut(tables: Tables) -> None:
    ((stem, workload, chart),) = switch_charts(tables[1])
    assert (stem, workload) == ("w-switches", "w")
    data = specification(chart)["datasets"]
    curves = next(rows for rows in data.values() if "excess" in rows[0])
    assert {row["cause"] for row in curves} == {
        *("all switches", "involuntary", "system call", "page fault", "start")
    }
    assert min(row["alive"] for row in curves) >= 0.1
    assert [*switch_words(tables[1])] == ["w"]


def test_segments_that_are_all_short_have_no_picture() -> None:
    curves = curves_of([Segment(1, 0, "start", 900, at_the_start(10, 0))])
    assert [*switch_charts(curves)] == []
    assert mean_curves(curves)["alive"].to_list() == [0, 0]


def test_a_placement_whose_curve_has_ended_has_no_segment_alive() -> None:
    """Placements have different segments if a quantum is so many cycles: there a curve ends earlier."""
    long = Segment(1, 0, "involuntary", 4_000, at_the_start(400, 0, within=4_000))
    short = Segment(1, 0, "involuntary", 1_500, at_the_start(100, 0, within=1_000))
    curves = pl.concat([curves_of([long], seed=0), curves_of([short], seed=1)])
    means = mean_curves(curves).filter(pl.col("cause").is_null())
    assert means["since"].to_list() == [1_000, 2_000, 3_000, 4_000]
    assert means["alive"].to_list() == [1, 0.5, 0.5, 0.5]
    assert means["cumulative"].to_list() == pytest.approx([100, 150, 200, 250])
    assert means["excess"].to_list() == pytest.approx([0.1, 0.05, 0.1, 0.1])
    # A placement whose curves all go as far as the others' is as it was.
    same = pl.concat([curves_of([long], seed=seed) for seed in SEEDS])
    assert to_one_end(same) is same


def test_notes_are_about_every_placement() -> None:
    """A note is made where any placement has a reason for it, and numbers that differ are a range."""
    first = [Segment(1 + number % 2, 0, "involuntary", 2_000, at_the_start(9, 0)) for number in range(20)]
    second = [*first[:18], Segment(1, 0, "involuntary", 300, at_the_start(9, 0), truncated=True)]
    fourth = [Segment(1 + number % 2, 0, "involuntary", 300, at_the_start(9, 0)) for number in range(20)]
    notes = notes_of(first, second)
    assert notes == [
        "0 to 1 of 19 to 20 segments (0 to 5.26%) fell short of 1 000 instructions; a short segment counts "
        "with its own length",
        "the end of the trace cut the last segment off; it counts with the length that it has",
    ]
    assert notes_of(first, first[:18]) == []
    medium, forever = (
        [Segment(1 + number % 2, 0, "involuntary", length, at_the_start(9, 0)) for number in range(4)]
        for length in (20_000, 2_000_000)
    )
    assert notes_of(medium, forever) == [
        "under 1 of 2 placements more than 10% of the segments are longer than 1 000 000 instructions, where "
        "the curves end, so MB90's average cost is too low"
    ]
    (few, undefined) = notes_of(first, fourth)
    assert few.startswith("0 to 20 of 20 segments (0 to 100%)")
    assert undefined.startswith("under 1 of 2 placements fewer than 10% of the segments have 1 000 instr")


def notes_of(*placements: list[Segment]) -> list[str]:
    """Returns the notes of a result whose placements have these segments."""
    costs = pl.concat([costs_of(segments, seed=seed) for seed, segments in enumerate(placements)])
    curves = pl.concat([curves_of(segments, seed=seed) for seed, segments in enumerate(placements)])
    tables = SwitchTables(costs, curves, pages_of())
    return SwitchResult(results=pl.DataFrame(), tables=tables, notes=[], machine="", provenance={}).notes
