"""Tests results in a notebook: tables as HTML, charts without a directory."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

import binhop
from binhop import study
from binhop.numbers import rate
from binhop.report import figures
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
TURNS = events([row for n in range(60) for row in ((4, n % 2, 0, 0), (0, 4096 * (n % 9), 4000, 1000))])
TAGS = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
SMALL = ["memory.page=4KiB", "placement.pool=4MiB", "cache.l2.size=64KiB"]


@pytest.fixture(scope="module")
def trace() -> binhop.Trace:
    rows = [(1, 4096 * (7 * n % 12), 8, 1) for n in range(400)] + [(0, 0x900000, 400, 100)]
    return binhop.Trace.from_arrow(events(rows), HOSTILE)


@pytest.fixture(scope="module")
def results(trace: binhop.Trace) -> dict[str, Any]:
    machine = binhop.Machine.load("kh90", SMALL)
    turns = binhop.Trace.from_arrow(TURNS, HOSTILE)
    return {
        "run": binhop.simulate(machine, trace, seeds=8),
        "compare": binhop.compare(
            {"<i>a": machine, "b": machine.with_settings("cache.l2.ways=2")}, trace, seeds=8
        ),
        "paging": binhop.paging(trace, sizes=["1MiB", "2MiB"], colors=[1, 4]),
        "reuse": binhop.reuse(trace),
        "switches": binhop.switches("zen-4k", turns, seeds=2),
        "translate": binhop.translate("zen-4k", trace, seeds=2),
        "io": binhop.device_data("zen-4k", trace, schemes=["ddio"], seeds=2),
        "study": study.run(study.plan(study.parse(STUDY))),
    }


@pytest.mark.parametrize(
    "kind", ["run", "compare", "paging", "reuse", "switches", "translate", "io", "study"]
)
def test_tables_are_html_with_every_text_escaped(kind: str, results: dict[str, Any]) -> None:
    shown = results[kind]._repr_html_()
    root = ET.fromstring(shown)  # well formed
    assert {each.tag for each in root.iter()} <= TAGS
    assert "<script" not in shown
    assert "\x1b" not in shown
    words = ["".join(cell.itertext()) for cell in root.iter("td")]
    cells = [cell for table in results[kind].tables() for row in table.rows for cell in row]
    assert [cell for cell in cells if "<" not in cell and "\x1b" not in cell] == [
        word for word in words if "<" not in word and "\\x1b" not in word
    ]
    notes = ["".join(each.itertext()) for each in root.iter("li")]
    assert len(notes) >= len(results[kind].notes)
    titled = "".join(root.itertext())
    assert ("<b>p" if kind == "study" else "<script>alert('1')</script>\\x1b[2J&\"x") in titled


@pytest.mark.parametrize("kind", ["run", "compare", "paging", "reuse", "switches", "translate", "io"])
def test_a_chart_is_that_of_the_directory(kind: str, results: dict[str, Any], tmp_path: Path) -> None:
    result = results[kind]
    chart = result.chart()
    assert result.chart(HOSTILE).to_dict() == chart.to_dict()
    result.write(tmp_path / "out")
    drawn = next((tmp_path / "out").glob("*.svg")).read_bytes()
    _, svg = save(chart, tmp_path, "own")
    assert svg.read_bytes() == drawn
    with pytest.raises(binhop.RequestError, match="no workload of this result has this name"):
        result.chart("gone")


def words(chart: Any, directory: Path) -> str:
    """Returns the text of a chart in words, which can be drawn as any other chart."""
    _, svg = save(chart, directory, "words")
    assert "".join(ET.fromstring(svg.read_text()).itertext())
    (data,) = chart.to_dict()["datasets"].values()
    return data[0]["text"]


def test_where_nothing_varies_a_chart_says_so(trace: binhop.Trace, tmp_path: Path) -> None:
    machine = binhop.Machine.load("kh90", [*SMALL, "placement.policy=first"])
    one = binhop.simulate("two-level", trace)
    value = rate(one.value("l2.mpi"))
    assert words(one.chart(), tmp_path) == f"One placement: {value} l2 misses per 1000 instructions."
    assert one.chart(HOSTILE).to_dict() == one.chart().to_dict()
    with pytest.raises(binhop.RequestError, match="no workload of this result has this name"):
        one.chart("gone")
    line = events([(0, 4096 * n, 4, 1) for n in range(8)])
    equal = binhop.simulate("kh90", binhop.Trace.from_arrow(line, "line"), seeds=3)
    assert (
        words(equal.chart(), tmp_path)
        == "All 3 placements are equal: 1000.0 l2 misses per 1000 instructions."
    )
    compared = binhop.compare({"a": machine, "b": machine.with_settings("cache.l2.ways=2")}, trace, seeds=1)
    assert words(compared.chart(), tmp_path).startswith("One seed: ")
    paged = binhop.paging(trace, sizes=["1MiB"], colors=[1])
    assert words(paged.chart(), tmp_path).startswith("One memory size and one color count: ")
    one.write(tmp_path / "out")
    assert [*(tmp_path / "out").glob("*.svg")] == []
    assert "<table>" in one._repr_html_()


def test_a_run_of_nothing_has_a_chart(tmp_path: Path) -> None:
    result = binhop.simulate("two-level", events([(0, 0, 400, 100)]), length=50)
    assert (
        words(result.chart(), tmp_path)
        == "There are no l2 misses per 1000 instructions: nothing was executed."
    )


LONG = {"length": "400k", "interval": 200}


def points(chart: Any) -> int:
    """Returns the number of rows that a chart holds."""
    return sum(len(rows) for rows in chart.to_dict()["datasets"].values())


def test_a_figure_may_have_more_points_than_altair_takes_from_a_table(tmp_path: Path) -> None:
    result = binhop.simulate("kh90", "lin", seeds=4, **LONG)
    chart = result.chart()
    assert points(chart) > 5000
    assert {"lin-l2.png", "lin-l2.svg"} <= set(result.write(tmp_path / "out"))
    assert chart.properties(title="t").to_dict()["title"] == "t"


def test_many_placements_have_fewer_points_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "ALL_POINTS", 1000)
    result = binhop.simulate("kh90", "lin", seeds=8, **LONG)
    assert result.series.filter(metric="l2.mpi").height > 10_000
    assert 900 < points(result.chart()) < 1100
