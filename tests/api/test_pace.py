"""Tests the progress over all passes of a command, and the time left, by a fixed pace and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binhop
from binhop import study
from binhop.pace import Pace, Passes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LENGTH = 60_000_000


def slow_start(at: float) -> float:
    """Returns the references done at a time, with a tenth of the speed in the first second."""
    return 1e6 * (0.1 * min(at, 1.0) + max(at - 1.0, 0.0))


def set_up(at: float) -> float:
    """Returns the references done at a time, with none in the first two seconds."""
    return 1e6 * max(at - 2.0, 0.0)


def uneven(at: float) -> float:
    """Returns the references done at a time that is half a second fast, then half a second slow."""
    whole, part = divmod(at, 1.0)
    return 1e6 * (whole + min(part, 0.5) * 1.2 + max(part - 0.5, 0.0) * 0.8)


def steady(at: float) -> float:
    return 1e6 * at


@pytest.mark.parametrize("speed", [steady, slow_start, set_up, uneven], ids=lambda speed: speed.__name__)
def test_the_time_left_is_right_within_30_percent_after_3_seconds(speed: Callable[[float], float]) -> None:
    now = 0.0
    pace = Pace(clock=lambda: now)
    end = next(tenth / 10 for tenth in range(10_000) if speed(tenth / 10) >= LENGTH)
    looked = 0
    for tenth in range(int(end * 10)):
        now = tenth / 10
        pace.note(int(speed(now)))
        if 3 <= now < end - 1:
            left = pace.left(LENGTH)
            assert left is not None
            assert abs(left - (end - now)) <= 0.3 * (end - now), (now, left, end - now)
            looked += 1
    assert looked > 500


def test_nothing_is_said_before_anything_is_known() -> None:
    pace = Pace(clock=lambda: 0.0)
    assert pace.left(10) is None
    pace.note(0)
    pace.note(5)
    pace.note(6)  # at the same moment
    assert (pace.rate(), pace.left(10)) == (None, None)


def test_a_long_run_is_kept_in_few_samples() -> None:
    now = 0.0
    pace = Pace(clock=lambda: now)
    for step in range(1, 100_000):
        now = step / 10
        pace.note(step * 1000)
    assert len(pace._times) <= 2001
    assert pace.left(100_000 * 1000 + 999_000) == pytest.approx(100, rel=0.01)


def grows(seen: list[tuple[int, int | None]]) -> None:
    """Asserts that the progress is one total, which never goes back and never exceeds the whole."""
    done = [done for done, _ in seen]
    assert done == sorted(done)
    assert all(of is None or done <= of for done, of in seen)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("parts")
    paths = [str(directory / f"{name}.parquet") for name in ("lin", "tree")]
    binhop.Trace.workload("lin").write(paths[0], length=300_000)
    binhop.Trace.workload("tree").write(paths[1], length=500_000)
    return paths


def test_a_comparison_of_several_traces_is_one_whole(files: list[str]) -> None:
    seen: list[tuple[int, int | None]] = []
    mine = ("kh90", lambda request, pool: pool[0])  # read apart from the others
    binhop.compare(
        {"one": "kh90", "two": "zen-4k", "mine": mine},
        files,
        seeds=2,
        metric="l2.mpi",
        progress=lambda done, of: seen.append((done, of)),
    )
    grows(seen)
    total = 2 * sum(binhop.Trace.open(path).references or 0 for path in files)
    assert {of for _, of in seen} == {total}


def test_rounds_until_an_interval_is_narrow_are_one_whole(files: list[str]) -> None:
    seen: list[tuple[int, int | None]] = []
    binhop.simulate_until(
        "kh90", files[0], until="0.001%", seeds=64, progress=lambda done, of: seen.append((done, of))
    )
    grows(seen)
    assert seen[-1][1] == 2 * (binhop.Trace.open(files[0]).references or 0)


def test_the_runs_of_a_study_are_one_whole(files: list[str], tmp_path: Path) -> None:
    text = f"""
name = "s"
title = "Two workloads"
seeds = 2
[[part]]
name = "both"
workloads = ["{files[0]}", "{files[1]}", "sor"]
machine = "kh90"
length = "200k"
"""
    (tmp_path / "s.toml").write_text(text)
    plan = study.plan(study.load(tmp_path / "s.toml"))
    seen: list[tuple[int, int | None]] = []
    titles = []

    def watch(title: str, done: int, of: int | None) -> None:
        titles.append(title)
        seen.append((done, of))

    study.run(plan, watch=watch)
    grows(seen)
    assert {of for _, of in seen} == {600_000}
    assert len(dict.fromkeys(titles)) == 3


def test_a_pass_that_ends_early_and_one_of_unknown_length() -> None:
    seen: list[tuple[int, int | None]] = []
    passes = Passes(lambda done, of: seen.append((done, of)), [None, 100, None])
    first = passes.next()
    first(10, None)
    first(50, None)
    second = passes.next()
    second(20, 100)
    third = passes.next()
    third(5, 30)
    assert seen == [(10, None), (50, None), (70, 225), (155, 180)]
