"""Tests `binhop.paging`: page faults of many memories in one pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import faults
from tests.conftest import FETCH, LOAD, STORE, events

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096


def sweeps(pages: int, times: int) -> pl.DataFrame:
    """Returns loads of one word of each page, in rotation."""
    return events([(LOAD, page * PAGE, 4, 1) for _ in range(times) for page in range(pages)])


def counted(result: binhop.PagingResult) -> dict[tuple[int, int], int]:
    cells = result.faults.select("size", "colors", "faults").rows()
    return {(size // PAGE, colors): count for size, colors, count in cells}


def test_a_sweep_is_the_worst_case_of_lru_and_colors_help() -> None:
    # LF91 §4.2: nine pages in rotation, eight frames. Two colors get 5 and 4 pages for 4 frames each.
    found = binhop.paging(sweeps(9, 10), sizes=[8 * PAGE, 16 * PAGE], colors=[1, 2, 4, 8])
    eight = {1: 90, 2: 54, 4: 36, 8: 27}
    assert counted(found) == {(8, c): n for c, n in eight.items()} | {(16, c): 9 for c in (1, 2, 4, 8)}
    assert found.faults["fault_rate"].to_list() == [count / 90 for count in found.faults["faults"].to_list()]
    # Nine pages: k = 9, 4, 2, 1; the first color is full after 9, 7, 5, 1 pages.
    assert found.utilization["frames_per_color"].to_list() == [9, 4, 2, 1]
    assert found.utilization["allocated"].to_list() == [9, 7, 5, 1]
    assert found.utilization["utilization"].to_list() == [9 / 9, 7 / 8, 5 / 8, 1 / 8]


def test_fetches_and_data_count_alike_and_a_straddle_touches_two_pages() -> None:
    rows = [(FETCH, PAGE - 4, 8, 2), (STORE, 3 * PAGE - 1, 2, 1), (LOAD, PAGE, 4, 1)]
    found = binhop.paging(events(rows), sizes=[16 * PAGE], colors=[1])
    assert found.faults.select("faults", "references").rows() == [(4, 4)]
    assert found.first_touches["page"].to_list() == [0, 1, 2, 3]


def test_a_length_owns_whole_rows() -> None:
    trace = events([(FETCH, 0, 40, 10), (LOAD, PAGE, 4, 1), (FETCH, 40, 8, 2), (LOAD, 2 * PAGE, 4, 1)])
    for length, references, pages in [(10, 10, 1), (11, 11, 2), (12, 11, 2), (13, 13, 2), (99, 14, 3)]:
        found = binhop.paging(trace, sizes=[4 * PAGE], colors=[1], length=length)
        assert found.faults.select("references", "faults").rows() == [(references, pages)]


def test_the_pid_hash_spreads_equal_layouts() -> None:
    switch = 4
    rows = [row for asid in range(8) for row in ((switch, asid, 0, 0), (LOAD, 0, 4, 1))]
    plain = binhop.paging(events(rows * 5), sizes=[8 * PAGE], colors=[8])
    hashed = binhop.paging(events(rows * 5), sizes=[8 * PAGE], colors=[8], pid_hash=True)
    assert counted(plain) == {(8, 8): 40}  # eight spaces, one color, one frame
    # The hash, mod 8, of the spaces 0 to 7: two pairs share a color and its one frame, and always fault.
    colors = [(asid * 0x9E3779B97F4A7C15 % 2**64 >> 32) % 8 for asid in range(8)]
    assert sorted(map(colors.count, colors)) == [1, 1, 1, 1, 2, 2, 2, 2]
    assert counted(hashed) == {(8, 8): 4 * 1 + 4 * 5}


def test_sizes_and_colors_come_in_the_order_asked_for() -> None:
    found = binhop.paging("lin", sizes=["2MiB", "1MiB"], colors=[4, 1], length=300_000)
    assert found.faults.select("size", "colors").rows() == [
        (2 << 20, 4),
        (2 << 20, 1),
        (1 << 20, 4),
        (1 << 20, 1),
    ]
    assert found.faults["frames_per_color"].to_list() == [128, 512, 64, 256]


def test_no_result_depends_on_threads() -> None:
    one, two = (binhop.paging("mult1", length=3_000_000, threads=n) for n in (1, 2))
    for name in ("faults", "utilization", "first_touches"):
        assert getattr(one, name).equals(getattr(two, name))
    assert one.provenance == two.provenance


def test_fewer_pages_than_colors_have_no_utilization() -> None:
    found = binhop.paging(sweeps(3, 1), sizes=[8 * PAGE], colors=[1, 4])
    assert found.utilization["utilization"].to_list() == [1.0, None]
    rows = json.loads(found.to_json())["rows"]
    assert [row["value"] for row in rows if row["metric"] == "paging.utilization"] == [1.0, None]


def test_the_tidy_table_says_the_same() -> None:
    found = faults.join([binhop.paging(name, length=200_000) for name in ("lin", "sor")])
    rows = json.loads(found.to_json())["rows"]
    assert {row["metric"]: row["unit"] for row in rows} == faults.UNITS
    assert all(isinstance(row["value"], int | None) for row in rows if "/" not in row["unit"])
    counted = {
        (r["workload"], r["size"], r["colors"]): r["value"] for r in rows if r["metric"] == "paging.faults"
    }
    cells = found.faults.select("workload", "size", "colors", "faults").rows()
    assert counted == {(workload, size, colors): count for workload, size, colors, count in cells}
    assert found.workloads == ["lin", "sor"]
    assert [trace["references"] <= 200_000 for trace in found.provenance["traces"]] == [True, True]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    found = binhop.paging("lin", length=200_000)
    names = found.write(tmp_path / "out")
    assert {"results.parquet", "faults.csv", "provenance.json", "first_touches.parquet"} <= {*names}
    assert pl.read_parquet(tmp_path / "out" / "faults.parquet").equals(found.faults)
    assert pl.read_parquet(tmp_path / "out" / "results.parquet").equals(found.results)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sizes": []}, "at least one memory size"),
        ({"sizes": ["1MB"]}, "1MB"),
        ({"sizes": ["1MiB", 1 << 20]}, "once"),
        ({"sizes": [5000]}, "whole pages"),
        ({"colors": []}, "at least one color count"),
        ({"colors": [0]}, "at least one color"),
        ({"colors": [-1]}, "not negative"),
        ({"colors": [512], "sizes": ["1MiB"]}, "256 frames"),
        ({"colors": [3]}, "evenly"),
        ({"page": "3KiB"}, "power of two"),
        ({"length": None}, "never ends"),
        ({"length": 0}, "at least one reference"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(binhop.RequestError, match=said):
        binhop.paging("lin", **{"length": 1000, **changed})
