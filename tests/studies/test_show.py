"""Tests studies whose machines vary, and the metrics that a study shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import study
from binhop.errors import RequestError
from binhop.numbers import grouped

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

TEXT = """
name = "across"
title = "Machines side by side"
seeds = 2
length = "20k"
show = ["memory.mpi", "cpi"]

[[part]]
name = "all"
workloads = ["lin", "tree"]
[part.axes]
machine = ["skylake", { label = "small", value = "skylake", set = { "cache.l3.size" = "64KiB" } }, "apple-m1"]
"placement.policy" = ["random", "first"]

[[part]]
name = "one"
workloads = ["mult2.2"]
machine = "kh90"
set = { "cache.l2.size" = "64KiB" }
show = ["l2.misses"]
"""


@pytest.fixture(scope="module")
def result() -> study.StudyResult:
    return study.run(study.plan(study.parse(TEXT)))


def test_machines_are_an_axis(result: study.StudyResult) -> None:
    assert result.axes == ["placement.policy"], "machine is a column anyway"
    of = result.results.filter(part="all")
    assert of["machine"].unique(maintain_order=True).to_list() == ["skylake", "small", "apple-m1"]
    settings = {"skylake": [], "small": ["cache.l3.size=64KiB"], "apple-m1": []}
    for name, own in settings.items():
        machine = binhop.Machine.load("apple-m1" if name == "apple-m1" else "skylake", own)
        alone = binhop.simulate(
            machine.with_settings("placement.policy=first"), "tree", seeds=2, length=20_000
        )
        cell = of.filter(pl.col("placement.policy") == "first", machine=name, workload="tree")
        assert cell.select("phase", "seed", "metric", "value").rows() == (
            alone.results.select("phase", "seed", "metric", "value").rows()
        )
    assert result.results.filter(part="one")["machine"].unique().to_list() == ["kh90"]


def test_the_tables_hold_what_was_asked(result: study.StudyResult) -> None:
    first, second = result.tables()
    assert first.columns == ("workload", "machine", "policy", "memory MPI×1000", "CPI"), "nothing varies"
    assert [row[:3] for row in first.rows] == [
        (workload, machine, policy)
        for workload in ("lin", "tree")
        for machine in ("skylake", "small", "apple-m1")
        for policy in ("random", "first")
    ]
    summary = result.summary().filter(metric="cpi", part="all")
    assert [row[4] for row in first.rows] == [f"{mean:#.4g}" for mean in summary["mean"]]
    assert second.columns == ("workload", "l2 misses", "95% interval")
    machine = binhop.Machine.load("kh90", ["cache.l2.size=64KiB"])
    alone = binhop.simulate(machine, "mult2.2", seeds=2, length=20_000)
    misses = [
        sum(int(alone.value(f"l2.{kind}.misses", seed) or 0) for kind in ("fetch", "load", "store"))
        for seed in (0, 1)
    ]
    assert second.rows[0][1] == f"{round(sum(misses) / 2)}"
    half = 12.706204736174698 * abs(misses[0] - misses[1]) / 2  # t(0.975, 1) × deviation / √2
    assert half > 0
    mean = sum(misses) / 2
    assert second.rows[0][2] == f"{grouped(mean - half)}-{grouped(mean + half)}"
    assert result.provenance["show"] == {"all": ["memory.mpi", "cpi"], "one": ["l2.misses"]}


def test_without_a_word_the_last_level_and_cpi_are_shown() -> None:
    text = TEXT.replace('show = ["memory.mpi", "cpi"]\n', "").replace('show = ["l2.misses"]\n', "")
    first, second = study.run(study.plan(study.parse(text))).tables()
    assert first.columns[3:] == ("memory MPI×1000", "CPI"), "their levels differ"
    assert second.columns[1:] == ("l2 MPI×1000", "95% interval"), "kh90 states no cost"


def test_notes_are_said_once() -> None:
    from binhop.study.run import once

    cells = {name: (name[0], f"m{name[1]}", f"cell {name}") for name in ("a1", "a2", "b1", "c1", "c2")}
    every = [(cell, "x") for cell in (*cells, "b1")]
    some = [(cell, "y") for cell in ("a1", "a2", "c1", "c2")]
    unused = [(cell, f"placement {policy} does not use pool") for cell in cells for policy in ("p", "q")]
    said = [*every, *some, ("a2", "z"), ("c1", "z"), *unused]
    assert once(said, cells) == ["x", "a, c: y", "cell a2; cell c1: z", "the policy does not use pool"]
    assert once([(cell, "w") for cell in ("a2", "c2")], cells) == ["m2: w"]
    most = [(cell, "z") for cell in ("a1", "a2", "b1", "c1")]
    assert once(most, cells) == ["cell a1; cell a2; cell b1; and 1 further cell: z"]


def test_a_note_names_the_cells_that_it_is_true_of() -> None:
    text = """
    name = "s"
    title = "Two lengths"
    [[part]]
    name = "short"
    workloads = ["lin"]
    machine = "kh90"
    length = "2k"
    seeds = 1
    [[part]]
    name = "long"
    workloads = ["lin"]
    machine = "kh90"
    length = "300k"
    seeds = 1
    """
    notes = study.run(study.plan(study.parse(text))).notes
    evictions = [note for note in notes if "no eviction" in note and "l1i" in note]
    assert evictions == [] or all(note.startswith("short, lin, kh90: ") for note in evictions), notes


def test_the_command_prints_and_reports_them(command: Command) -> None:
    (command.directory / "across.toml").write_text(TEXT)
    out = command.ok("sweep", "across.toml", "--out", "out", "--table", "md").stdout
    assert (command.directory / "out" / "table.md").read_text() == out.split("written:")[0]
    assert "| lin | small | random |" in out
    assert command.ok("report", "out", "--table", "md").stdout == out.split("written:")[0]
    text = command.ok("report", "out", "--table", "text").stdout
    assert max(map(len, text.splitlines())) <= 80
    notes = [line for line in text.splitlines() if line.startswith("note: ")]
    assert len(notes) == len({*notes})
    rows = json.loads(command.ok("sweep", "across.toml", "--json", "-").stdout)["rows"]
    assert {row["machine"] for row in rows} == {"skylake", "small", "apple-m1", "kh90"}


WRONG = [
    ('machine = "kh90"\n', "", "part[1]: machine: must be given"),
    (
        'name = "all"',
        'name = "all"\nmachine = "kh90"',
        "part[0].machine: kh90: the axis names the machines",
    ),
    ('"apple-m1"]', "3]", "part[0].axes.machine[2]: 3: a value of the axis machine is a bundled machine"),
    (
        'value = "skylake", ',
        "",
        "part[0].axes.machine[1]: small: a value of the axis machine is a bundled machine",
    ),
    ('"apple-m1"]', '"aple-m1"]', "apple-m1"),
    ('label = "small"', 'label = "skylake"', "part[0].axes.machine: skylake: an axis has this value twice"),
    ('"cpi"]', '"cpu"]', "part all: show: cpu: no machine of the part has this metric; did you mean cpi?"),
    ('"l2.misses"]', '"l3.misses"]', "part one: show: l3.misses: no machine of the part has this metric"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new for _, new, _ in WRONG])
def test_a_wrong_study(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(RequestError) as error:
        study.plan(study.parse(TEXT.replace(old, new, 1)))
    assert message in str(error.value)


def test_two_files_of_one_name_need_labels(tmp_path: Path) -> None:
    for name, size in [("a.toml", "64KiB"), ("b.toml", "128KiB")]:
        text = binhop.Machine.load("kh90", [f"cache.l2.size={size}"]).resolved()
        (tmp_path / name).write_text(text)
    text = TEXT.replace('"apple-m1"]', '"a.toml", "b.toml"]')
    with pytest.raises(RequestError, match="two machines of one axis have this name"):
        study.plan(study.parse(text), directory=tmp_path)
    labelled = text.replace('"b.toml"', '{ label = "b", value = "b.toml" }')
    plan = study.plan(study.parse(labelled), directory=tmp_path)
    assert [place.machine for place in plan.places[:8:2]] == ["skylake", "small", "kh90", "b"]
