"""Tests the model of KH90 §2 against the paper's values and against drawn placements."""

from __future__ import annotations

import itertools

import pytest

from binhop.errors import RequestError
from binhop.models import conflicts
from binhop.models.conflicts import Cache
from binhop.models.estimate import agrees

MIB1 = {ways: Cache.of("1MiB", ways) for ways in (1, 2, 4)}


def test_the_cache_of_the_paper() -> None:
    assert [(c.frames, c.bins, c.capacity) for c in MIB1.values()] == [
        (8192, 64, 64),
        (8192, 32, 64),
        (8192, 16, 64),
    ]
    assert Cache.of("4MiB", 1).bins == 256
    assert Cache.of("16MiB", 1).bins == 1024


@pytest.mark.parametrize(
    ("pages", "ways", "expected"),
    [
        (64, 1, 23.2676),
        (64, 2, 16.9826),
        (64, 4, 12.0580),
        (32, 1, 6.6278),
        (32, 2, 3.1091),
        (32, 4, 1.0131),
        (128, 1, 72.3912),
    ],
)
def test_fixed_points_of_the_average(pages: int, ways: int, expected: float) -> None:
    assert round(conflicts.average(pages, MIB1[ways]), 4) == expected


def test_the_equation_gives_36_4_percent_where_the_paper_says_30() -> None:
    assert round(100 * conflicts.mapping(64, MIB1[1]) / 64, 1) == 36.4


def test_probabilities_sum_to_one_and_average_to_the_pages() -> None:
    chance = conflicts.probability(100, MIB1[2])
    assert abs(chance.sum() - 1) < 1e-12
    assert abs(sum(u * p for u, p in enumerate(chance)) - 100 / 32) < 1e-9


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("pages", range(9))
def test_every_placement_of_a_tiny_memory_counted(pages: int, ways: int) -> None:
    cache = Cache(frames=8, bins=4, ways=ways)
    counts = []
    for frames in itertools.combinations(range(8), pages):
        in_bin = [sum(frame % 4 == b for frame in frames) for b in range(4)]
        counts.append(sum(max(0, u - ways) for u in in_bin))
    assert conflicts.average(pages, cache) == pytest.approx(sum(counts) / len(counts), abs=1e-12)
    assert conflicts.maximum(pages, cache) == max(counts)
    # The minimum is max(0, U − N) while each bin has enough frames for its share.
    assert conflicts.minimum(pages, cache) == min(counts)


@pytest.mark.parametrize("pages", [16, 64, 200])
@pytest.mark.parametrize("ways", [1, 2, 4])
def test_drawn_placements_agree_with_the_model(pages: int, ways: int) -> None:
    drawn = conflicts.monte_carlo(pages, MIB1[ways], samples=4000, seed=1)
    assert drawn.error > 0
    assert agrees(conflicts.average(pages, MIB1[ways]), drawn)


def test_agreement_is_no_formality() -> None:
    drawn = conflicts.monte_carlo(64, MIB1[1], samples=4000, seed=1)
    assert not agrees(conflicts.average(64, MIB1[2]), drawn)
    assert not agrees(1.02 * conflicts.average(64, MIB1[1]), drawn)


def test_mapping_conflicts_peak_where_the_application_fills_the_cache() -> None:
    for cache in MIB1.values():
        curve = [conflicts.mapping(pages, cache) for pages in range(1, 257)]
        assert curve.index(max(curve)) + 1 == 64


def test_worth_in_ways_and_in_size_from_table_1() -> None:
    ways = conflicts.equivalent(1.1858, {1: 1.4953, 2: 1.0480, 4: 0.9593})
    size = conflicts.equivalent(1.1858, {1: 1.4953, 4: 0.7121, 16: 0.3339})
    assert (round(ways or 0, 1), round(size or 0, 1)) == (1.6, 1.7)
    assert conflicts.equivalent(1.0, {1: 1.4953, 2: 1.0480, 4: 0.9593}) == pytest.approx(2.9102, abs=1e-4)
    assert conflicts.equivalent(2.0, {1: 1.4953, 2: 1.0480}) is None


def test_what_cannot_be_asked() -> None:
    with pytest.raises(RequestError, match=r"pages: 8193: memory has 8192 frames; give a number from 0"):
        conflicts.average(8193, MIB1[1])
    with pytest.raises(RequestError, match=r"bins: 3: the same number of the 8 frames must lie in each bin"):
        Cache(frames=8, bins=3, ways=1)
    with pytest.raises(RequestError, match="samples: 1"):
        conflicts.monte_carlo(4, MIB1[1], samples=1)
    with pytest.raises(RequestError, match="size: 4M: a size is a whole number with a unit"):
        Cache.of("4M", 1)
