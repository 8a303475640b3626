"""Results show themselves in a notebook: tables as HTML, charts without a directory."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from binhop import study
from binhop.report.style import save
from tests.conftest import events

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert('1')</script>\x1b[2J&\"x"
STUDY = """
name = "s"
title = "t"
seeds = 2
length = "2k"
[[part]]
name = "<b>p"
workloads = ["lin"]
machine = "kh90"
axes = { "cache.l2.size" = ["64KiB", "128KiB"] }
"""
TAGS = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
SMALL = ["memory.page=4KiB", "placement.pool=4MiB", "cache.l2.size=64KiB"]


@pytest.fixture(scope="module")
def trace() -> binhop.Trace:
    rows = [(1, 4096 * (7 * n % 12), 8, 1) for n in range(400)] + [(0, 0x900000, 400, 100)]
    return binhop.Trace.from_arrow(events(rows), HOSTILE)


@pytest.fixture(scope="module")
def results(trace: binhop.Trace) -> dict[str, Any]:
    machine = binhop.Machine.load("kh90", SMALL)
    return {
        "run": binhop.simulate(machine, trace, seeds=8),
        "compare": binhop.compare(
            {"<i>a": machine, "b": machine.with_settings("cache.l2.ways=2")}, trace, seeds=8
        ),
        "paging": binhop.paging(trace, sizes=["1MiB", "2MiB"], colors=[1, 4]),
        "study": study.run(study.plan(study.parse(STUDY))),
    }


@pytest.mark.parametrize("kind", ["run", "compare", "paging", "study"])
def test_tables_are_html_with_every_text_escaped(kind: str, results: dict[str, Any]) -> None:
    shown = results[kind]._repr_html_()
    root = ET.fromstring(shown)  # well formed
    assert {each.tag for each in root.iter()} <= TAGS
    assert "<script" not in shown
    assert "\x1b" not in shown
    words = ["".join(cell.itertext()) for cell in root.iter("td")]
    for table in results[kind].tables():
        assert [cell for row in table.rows for cell in row if "<" not in cell and "\x1b" not in cell] == [
            word for word in words if "<" not in word and "\\x1b" not in word
        ]
    notes = ["".join(each.itertext()) for each in root.iter("li")]
    assert len(notes) >= len(results[kind].notes)
    titled = "".join(root.itertext())
    assert ("<b>p" if kind == "study" else "<script>alert('1')</script>\\x1b[2J&\"x") in titled


@pytest.mark.parametrize("kind", ["run", "compare", "paging"])
def test_a_chart_is_that_of_the_directory(kind: str, results: dict[str, Any], tmp_path: Path) -> None:
    result = results[kind]
    chart = result.chart()
    assert result.chart(HOSTILE).to_dict() == chart.to_dict()
    result.write(tmp_path / "out")
    drawn = next((tmp_path / "out").glob("*.svg")).read_bytes()
    _, svg = save(chart, tmp_path, "own")
    assert svg.read_bytes() == drawn
    with pytest.raises(binhop.RequestError, match="has something to draw"):
        result.chart("gone")


def test_where_nothing_varies_there_is_no_chart(trace: binhop.Trace) -> None:
    result = binhop.simulate("two-level", trace)
    with pytest.raises(binhop.RequestError, match="nothing to draw"):
        result.chart()
    assert isinstance(result.results, pl.DataFrame)
    assert "<table>" in result._repr_html_()
