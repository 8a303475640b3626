"""Tests LF91 §3, effective memory utilization: the paper's values, sums by hand, and Monte Carlo."""

from __future__ import annotations

from itertools import product

import pytest

from binhop.errors import RequestError
from binhop.models.estimate import agrees
from binhop.models.paging import allocations, monte_carlo, utilization, utilization_as_printed

COLORS = [1, 2, 4, 8, 16, 32, 64]
MIB = 256  # frames of 4 KiB


@pytest.mark.parametrize(
    ("frames", "fixed"),
    [
        (8 * MIB, [1, 0.9824, 0.9549, 0.9129, 0.8503, 0.7598, 0.6347]),
        (64 * MIB, [1, 0.9938, 0.9840, 0.9688, 0.9456, 0.9108, 0.8596]),
    ],
)
def test_the_fixed_points_of_the_specification(frames: int, fixed: list[float]) -> None:
    found = [round(utilization(colors, frames // colors), 4) for colors in COLORS]
    assert found == fixed


@pytest.mark.parametrize(
    ("pages", "fixed"), [(12416, 0.840), (4518, 0.742), (5771, 0.770), (1158, 0.535), (12480, 0.840)]
)
def test_the_model_at_each_programs_size(pages: int, fixed: float) -> None:
    assert round(utilization(64, pages // 64), 3) == fixed


def by_hand(colors: int, frames: int) -> float:
    """Returns E(c, k) from every sequence of colors, weighted by its probability."""

    def expected(counts: tuple[int, ...]) -> float:
        if max(counts) == frames:
            return 0.0
        after = [(*counts[:c], counts[c] + 1, *counts[c + 1 :]) for c in range(colors)]
        return 1 + sum(map(expected, after)) / colors

    return expected((0,) * colors)


@pytest.mark.parametrize(("colors", "frames"), [(2, 1), (2, 2), (2, 5), (3, 3), (4, 2), (5, 1), (1, 7)])
def test_small_memories_by_hand(colors: int, frames: int) -> None:
    assert allocations(colors, frames) == pytest.approx(by_hand(colors, frames), rel=1e-9)


def test_the_printed_formula_counts_one_page_too_many() -> None:
    for frames in (1, 32, 2048):
        assert utilization(1, frames) == 1
        assert utilization_as_printed(1, frames) == pytest.approx(1 + 1 / frames, rel=1e-9)
    assert utilization_as_printed(8, 256) > utilization(8, 256)


def test_one_color_by_integration_is_one_list_full() -> None:
    for frames in (1, 100, 16384):
        assert allocations(1, frames) == pytest.approx(frames, rel=1e-9)


@pytest.mark.parametrize(("colors", "size"), [*product(COLORS, [1, 8, 64])])
def test_the_monte_carlo_agrees(colors: int, size: int) -> None:
    frames = size * MIB // colors
    exact, estimate = utilization(colors, frames), monte_carlo(colors, frames)
    assert agrees(exact, estimate), (exact, estimate)
    # The printed formula is told apart where a list is short.
    if frames <= 8:
        assert not agrees(utilization_as_printed(colors, frames), estimate)


def test_a_monte_carlo_is_repeatable_and_its_seed_counts() -> None:
    assert monte_carlo(4, 16, runs=50) == monte_carlo(4, 16, runs=50)
    assert monte_carlo(4, 16, runs=50, seed=1) != monte_carlo(4, 16, runs=50, seed=2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(RequestError, match="colors"):
        allocations(0, 5)
    with pytest.raises(RequestError, match="frames"):
        monte_carlo(5, 0)
    with pytest.raises(RequestError, match="at least 2"):
        monte_carlo(5, 5, runs=1)
