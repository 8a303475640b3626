"""Tests groups, outliers and equal values over the placements, exactly at the bounds of the rules."""

from __future__ import annotations

import json
from statistics import quantiles
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

import binhop
from binhop.spread import Spread, notes, spread

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

NOTHING = Spread(equal=False, groups=None, outliers=())


def seeds_of(values: list[float]) -> tuple[list[list[int]], list[int]]:
    """Returns the seeds of the two groups, the lower group first, and those of the outliers."""
    found = spread(enumerate(values))
    groups = [[seed for seed, _ in group] for group in found.groups or ()]
    return groups, [seed for seed, _ in found.outliers]


def test_two_groups_are_parted_at_the_largest_gap() -> None:
    # The range is 10, and the largest gap is 6 (from 3 to 9), over half of it. Three of ten lie above.
    assert seeds_of([0, 9, 1, 2, 3, 10, 3, 9, 1, 2]) == ([[0, 2, 8, 3, 9, 4, 6], [1, 7, 5]], [])


@pytest.mark.parametrize(
    ("values", "parted"),
    [
        ([0, 1, 2, 3, 8, 9, 10, 10], False),  # gap 5 of 10: half, not over it
        ([0, 1, 2, 3, 8.0001, 9, 10, 10], True),
        ([0, 0, 0, 0, 1, 1, 1, 1], True),  # ties: no range within a group
        ([0, 0, 0, 1, 1, 1, 1], False),  # seven placements are too few
        ([5, 5, 5, 5, 5, 5, 5, 5], False),
    ],
)
def test_the_gap_must_be_over_half_the_range(values: list[float], *, parted: bool) -> None:
    assert bool(seeds_of(values)[0]) is parted


@pytest.mark.parametrize(
    ("small", "large", "parted"),
    [
        (1, 7, False),  # more than 10%, but one placement is no group
        (2, 6, True),
        (2, 18, True),  # 10%, exactly
        (2, 19, False),
        (3, 27, True),  # 10%, where 0.1 × 30 is inexact
        (3, 28, False),
        (410, 3686, True),
        (409, 3687, False),  # 9.99% of 4096
    ],
)
def test_each_side_has_a_tenth_of_the_placements_and_two(small: int, large: int, *, parted: bool) -> None:
    for low, high in ((small, large), (large, small)):
        found = spread(enumerate([0.0] * low + [1.0] * high))
        assert (found.groups is not None) is parted
        if found.groups is not None:
            assert [len(group) for group in found.groups] == [low, high]


def test_outliers_lie_beyond_three_interquartile_ranges() -> None:
    # Of 0 … 8 the quartiles are 2 and 6 (linear interpolation): the fences are -10 and 18.
    inside = [float(value) for value in range(9)]
    assert quantiles(inside, n=4, method="inclusive") == [2, 4, 6]
    assert np.quantile(inside, [0.25, 0.75]).tolist() == [2, 6]
    # One more value moves the quartiles to 2.25 and 6.75: the upper fence is 6.75 + 13.5 = 20.25.
    assert seeds_of([*inside, 20.25])[1] == []
    assert seeds_of([*inside, 20.26])[1] == [9]
    # Below: quartiles 1.25 and 5.75, the fence 1.25 - 13.5 = -12.25.
    assert seeds_of([*inside, -12.25])[1] == []
    assert seeds_of([*inside, -12.26])[1] == [9]


def test_quartiles_are_those_of_the_summary() -> None:
    values = [3.1, 2.7, 5.9, 4.4, 3.8, 9.1, 2.2, 3.3, 4.7]
    frame = pl.DataFrame({"value": values})["value"]
    lower, _, upper = quantiles(values, n=4, method="inclusive")
    assert lower == frame.quantile(0.25, interpolation="linear")
    assert upper == frame.quantile(0.75, interpolation="linear")


def test_where_most_are_equal_every_other_is_an_outlier() -> None:
    assert seeds_of([1.0] * 30 + [1.1, 0.9]) == ([], [31, 30])


def test_the_smaller_group_is_not_named_as_outliers_too() -> None:
    # 28 values lie around 1, one at 1.9 (an outlier), and four around 9 (a group).
    values = [1 + seed / 100 for seed in range(28)] + [1.9, 9.0, 9.1, 9.2, 9.3]
    groups, outliers = seeds_of(values)
    assert groups[1] == [29, 30, 31, 32]
    assert outliers == [28]


def test_few_placements_have_neither() -> None:
    assert spread([]) == spread([(0, 1.0)]) == NOTHING
    assert spread([(0, 1.0), (1, 2.0)]) == NOTHING
    assert spread([(0, 1.0), (1, 1.0)]) == Spread(equal=True, groups=None, outliers=())
    assert spread(enumerate([1.0] * 6 + [100.0])) == NOTHING
    assert spread(enumerate([1.0] * 7 + [100.0])).outliers == ((7, 100.0),)


# ---- the notes


def test_the_seeds_are_named() -> None:
    values = [(seed + 100, 0.001 + seed / 1e6) for seed in range(9)]
    values += [(7, 0.004), (3, 0.0041), (5, 0.004)]
    assert notes(values, "l2", "misses/instruction") == [
        "l2: the placements fall into two groups, 9 at 1.000 to 1.008 and 3 at 4.000 to 4.100 misses per "
        "1000 instructions; the upper one: seeds 3, 5, 7"
    ]


def test_of_many_seeds_the_first_are_named_and_the_others_counted() -> None:
    values = [(seed, 10.0) for seed in range(20)] + [(seed, 90.0) for seed in range(20, 30)]
    (note,) = notes(values, "os.faults", "pages")
    assert note == (
        "os.faults: the placements fall into two groups, 20 at 10 and 10 at 90; the upper one: "
        "seeds 20, 21, 22, 23, 24, 25, 26, 27 and 2 more"
    )


def test_outliers_are_named_with_their_values() -> None:
    values = [*enumerate([10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0]), (17, 900.0)]
    assert notes(values, "l2.fills", "lines") == [
        "l2.fills: 1 outlier, more than 3 interquartile ranges from the quartiles, 12 and 16: seed 17 (900)"
    ]


def test_equal_placements_are_said_where_a_picture_is_expected() -> None:
    values = [(seed, 0.0125) for seed in range(4)]
    assert notes(values, "l2", "misses/instruction") == []
    assert notes(values, "l2", "misses/instruction", picture=True) == [
        "l2: all 4 placements are equal (12.50 misses per 1000 instructions), so there is no distribution "
        "to draw"
    ]
    assert notes([(0, 1.0)], "l2", "lines", picture=True) == []
    assert notes([(0, None), (1, None)], "l2", "lines", picture=True) == []


# ---- the places that show notes


def made_up(values: dict[int, float], workload: str = "w") -> binhop.Result:
    rows = [
        (workload, "m", "measured", seed, "l2.mpi", "misses/instruction", value)
        for seed, value in values.items()
    ]
    schema = ["workload", "machine", "phase", "seed", "metric", "unit", "value"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    provenance = {"seeds": [*values], "traces": [], "machine": "m"}
    own = ["what the run says"]
    return binhop.Result(
        results=frame, series=frame, processes=frame, notes=own, machine="", provenance=provenance
    )


TWO = {seed: 0.001 if seed % 4 else 0.009 for seed in range(16)}
GROUPS = (
    "the placements fall into two groups, 12 at 1.000 and 4 at 9.000 misses per 1000 instructions; the upper "
    "one: seeds 0, 4, 8, 12"
)


def test_a_result_says_it_before_its_own_notes_in_python_and_in_json() -> None:
    result = made_up(TWO)
    assert result.notes == [f"l2: {GROUPS}", "what the run says"]
    assert json.loads(result.to_json())["provenance"]["notes"] == result.notes


def test_several_workloads_are_told_apart() -> None:
    from binhop.results import join

    joined = join([made_up(TWO, "a"), made_up(dict.fromkeys(range(16), 0.002), "b")])
    assert joined.notes[0] == f"a, l2: {GROUPS}"
    assert joined.notes[1].startswith("b, l2: all 16 placements are equal")
    assert joined.notes[2:] == ["what the run says"]


def test_rounds_are_judged_together() -> None:
    from binhop.until import extend

    halves = [{seed: value for seed, value in TWO.items() if seed // 8 == half} for half in (0, 1)]
    whole = extend(*map(made_up, halves))
    assert whole.notes == [f"l2: {GROUPS}", "what the run says"]


def test_a_note_stands_in_place_of_the_picture(command: Command, lin: Path) -> None:
    small = [
        "--set",
        "cache.l2.size=1MiB",
        "--set",
        "cache.l2.ways=full",
        "--set",
        "cache.l2.replacement=lru",
    ]
    level1 = ["--set", "cache.l1i.ways=2", "--set", "cache.l1d.ways=2"]
    done = command.ok("run", "kh90", str(lin), *small, *level1, "--seeds", "4", "--out", "out")
    said = " ".join(done.stdout.split())
    assert "note: l2: all 4 placements are equal (" in said
    assert "there is no distribution to draw" in said
    assert not [*(command.directory / "out").glob("*.png")]
    provenance = json.loads((command.directory / "out" / "provenance.json").read_text())
    assert any("there is no distribution to draw" in note for note in provenance["notes"])


def test_a_comparison_says_whose_placements_fall_apart() -> None:
    from binhop.comparison.result import _spread_notes

    others = dict.fromkeys(range(16), 0.002)
    frames = [
        made_up(values).results.with_columns(alternative=pl.lit(name))
        for name, values in (("old", TWO), ("new", others))
    ]
    assert _spread_notes(pl.concat(frames), ["l2.mpi"]) == [f"old, l2: {GROUPS}"]
    assert _spread_notes(frames[1], ["l2.mpi"]) == [
        "all alternatives and placements are equal: there is no distribution to draw"
    ]
