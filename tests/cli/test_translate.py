"""Tests `binhop translate`: the tables, the files, and refused requests."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.translation_figures import FIGURES, LEVELS, SIDES
from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.conftest import Command

SHORT = ("mult1", "--length", "200k", "--seeds", "3")
DESIGNS = ("zen-4k", "jm97", "cortex-a53")
MACHINES = ("--machine", ",".join(DESIGNS))


@pytest.fixture(scope="module")
def found() -> binhop.TranslationResult:
    return binhop.translate([*DESIGNS], "mult1", length=200_000, seeds=3)


def figure(found: binhop.TranslationResult, design: str, group: str, metric: str, **keys: str) -> list[float]:
    """Returns a figure's value under each placement."""
    return found.figures.filter(design=design, group=group, metric=metric, **keys)["value"].to_list()


def test_the_tables_fit_and_name_every_design(command: Command) -> None:
    printed = command.ok("translate", *SHORT, *MACHINES).stdout
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("mult1: ")
    assert "3 placements" in lines[0]
    for design in DESIGNS:
        assert sum(line.startswith(design) for line in lines) == 5, "a row, and a group in each other table"
    for words in ("second level", "handler fetch", "pollution", "fetch, TLB hit", "l2-dtlb", "224 KiB"):
        assert words in printed


def test_json_and_files_say_the_same(command: Command) -> None:
    told = json.loads(command.ok("translate", *SHORT, *MACHINES, "--json", "-", "--out", "out").stdout)
    place = command.directory / "out"
    assert {path.name for path in place.iterdir()} == {
        *("results.parquet", "figures.parquet", "summary.parquet", "summary.csv", "machines"),
        *("provenance.json", "run.json", "mult1-translation.png", "mult1-translation.svg"),
    }
    assert len([*(place / "machines").iterdir()]) == len(DESIGNS)
    assert told["rows"] == pl.read_parquet(place / "summary.parquet").to_dicts()
    assert [*told["provenance"]["designs"]] == [*DESIGNS]
    assert command.ok("translate", *SHORT, *MACHINES, "--quiet").stdout == ""


def test_the_picture_and_the_tables_are_made_anew(command: Command) -> None:
    first = command.ok("translate", *SHORT, *MACHINES, "--out", "out").stdout
    png = command.directory / "out" / "mult1-translation.png"
    before = png.read_bytes()
    png.unlink()
    command.ok("report", "out")
    assert png.read_bytes() == before
    assert first.startswith(command.ok("report", "out", "--table", "text").stdout.split("note:")[0].rstrip())
    assert "| design |" in command.ok("report", "out", "--table", "md").stdout


def test_every_figure_has_a_unit_and_stands_in_the_document(found: binhop.TranslationResult) -> None:
    assert {*found.figures.select("group", "metric").iter_rows()} == {*FIGURES}
    text = (ROOT / "docs" / "translation.md").read_text()
    for group, metric in FIGURES:
        assert any(line.startswith(f"| `{group}` |") and f"`{metric}`" in line for line in text.splitlines())


def test_causes_add_up_to_the_overhead_and_pollution_to_the_slowdown(
    found: binhop.TranslationResult,
) -> None:
    for design in DESIGNS:
        causes = found.figures.filter(design=design, group="cause", metric="overhead")
        sums = causes.group_by("seed", maintain_order=True).agg(pl.col("value").sum())["value"].to_list()
        overhead = figure(found, design, "all", "overhead")
        assert sums == pytest.approx(overhead)
        cpi, slowdown = figure(found, design, "all", "cpi"), figure(found, design, "all", "slowdown")
        added = [c - c / (1 + s) for c, s in zip(cpi, slowdown, strict=True)]
        pollution = figure(found, design, "all", "pollution")
        assert added == pytest.approx([o + p for o, p in zip(overhead, pollution, strict=True)])


def test_events_are_shares_of_their_side(found: binhop.TranslationResult) -> None:
    for design in DESIGNS:
        for side in SIDES:
            shares = found.figures.filter(design=design, group="event", side=side)
            assert shares["value"].min() >= 0
            assert shares.group_by("seed").agg(pl.col("value").sum())["value"].to_list() == pytest.approx(
                [1] * 3
            )
            assert {*shares["name"]} == {*LEVELS}


def test_pollution_is_the_difference_of_two_runs(found: binhop.TranslationResult) -> None:
    off = binhop.simulate("zen-4k", "mult1", length=200_000, seeds=3)
    machine = binhop.Machine.load("zen-4k", ["translation=on"])
    on = binhop.simulate(machine, "mult1", length=200_000, seeds=3)
    for seed in range(3):
        extra = sum(
            sign * run.value(f"l2.{kind}.misses", seed)
            for sign, run in ((1, on), (-1, off))
            for kind in ("fetch", "load", "store")
        )
        told = figure(found, "zen-4k", "cache", "pollution", name="l2")[seed]
        assert told == pytest.approx(extra / on.value("instructions", seed))


def test_the_runs_without_translation_are_those_of_run(found: binhop.TranslationResult) -> None:
    off = binhop.simulate("jm97", "mult1", length=200_000, seeds=3).results
    ours = found.results.filter(design="jm97", translation="off")
    assert ours.select("seed", "metric", "value").equals(off.select("seed", "metric", "value"))


def test_tlbs_reach_what_their_entries_map(found: binhop.TranslationResult) -> None:
    assert figure(found, "jm97", "tlb", "reach", name="tlb") == [56 * 4096] * 3, "8 entries are wired"
    assert figure(found, "zen-4k", "tlb", "reach", name="dtlb") == [96 * 4096] * 3


def test_settings_make_designs(command: Command) -> None:
    printed = command.ok(
        "translate", *SHORT, "--machine", "zen-4k", "--set", "tlb.l2-dtlb.entries=1024,4096"
    ).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    assert lines.index("l2-dtlb entries 1024") < lines.index("l2-dtlb entries 4096")


def test_one_design_and_one_placement(command: Command) -> None:
    printed = command.ok("translate", "tree", "--length", "50k", "--seeds", "1", "--machine", "jm97").stdout
    assert "1 placement\n" in printed
    assert "±" in printed


def test_a_pipe_is_read(command: Command) -> None:
    text = "".join(f"load {0x1000 * page:#x} size=8\n" for page in range(1, 400))
    (command.directory / "s.events").write_text(text)
    pipe = command.directory / "p.events"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[text])
    writer.start()
    printed = command("translate", str(pipe), *MACHINES, "--seeds", "2")
    writer.join()
    assert printed.returncode == 0, printed.stderr
    whole = command.ok("translate", "s.events", *MACHINES, "--seeds", "2").stdout
    assert printed.stdout.splitlines()[1:20] == whole.splitlines()[1:20]


def test_a_machine_without_costs_has_misses_and_no_cycles(command: Command) -> None:
    printed = command.ok("translate", *SHORT, "--machine", "kh90", "--out", "out").stdout
    assert "note: kh90 states no [cost], so there are no cycles" in " ".join(printed.split())
    assert "no design states costs" in printed
    assert not [*(command.directory / "out").glob("*.png")]


PLAIN = """
memory = { size = "64MiB", page = "4KiB" }
placement = { policy = "random", pool = "4MiB" }
[cache.l1]
serves = "all"
size = "32KiB"
line = "64B"
next = "memory"
"""
REFUSED: dict[str, tuple[list[str], list[str]]] = {
    "a machine that says nothing of translation": (
        ["--machine", "zen-4k,plain.toml"],
        ["plain", "--machine", "does not say how it translates", "[translation]"],
    ),
    "a machine without frames": (["--machine", "two-level"], ["two-level", "identity", "no frames"]),
    "a machine of another name": (["--machine", "zen-4l"], ["zen-4l", "zen-4k"]),
    "a machine twice": (["--machine", "jm97,jm97"], ["jm97", "--machine", "twice"]),
    "an empty place": (["--machine", "jm97,"], ["--machine", "empty place"]),
    "a setting that every design has": (
        ["--machine", "jm97", "--set", "translation=off"],
        ["translation=off", "--set", "leave it out"],
    ),
    "more wired entries than entries": (
        ["--machine", "jm97", "--set", "tlb.tlb.wired=64"],
        ["64", "tlb.tlb.wired", "64 entries"],
    ),
    "an unknown table": (
        ["--machine", "jm97", "--set", "translation.table=tree"],
        ["tree", "translation.table", "radix"],
    ),
    "too few pages for tables": (
        ["--machine", "zen-4k", "--set", "translation.reserve=8KiB"],
        ["reserve"],
    ),
    "a page size that the table cannot express": (
        ["--machine", "jm97", "--set", "memory.page=1MiB"],
        ["1MiB", "translation.table"],
    ),
    "huge pages that the table cannot express": (
        ["--machine", "jm97", "--set", "translation.huge-pages=4MiB"],
        ["translation.huge-pages", "mips table", "4KiB"],
    ),
    "huge pages under a placement without runs": (
        ["--machine", "zen-4k", "--set", "translation.huge-pages=2MiB"],
        ["translation.huge-pages", "placement random", "placement.policy=buddy"],
    ),
    "no placements": (["--machine", "jm97", "--seeds", "0"], ["--seeds"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_its_remedy(command: Command, name: str) -> None:
    (command.directory / "plain.toml").write_text(PLAIN)
    options, words = REFUSED[name]
    said = command.refused("translate", "tree", "--length", "20k", *options)
    for word in words:
        assert word in said, said


def test_designs_without_tlbs_have_no_table_of_tlbs(command: Command) -> None:
    text = command.ok("translate", "lin", "--length", "20k", "--machine", "softvm", "--seeds", "1").stdout
    assert "softvm" in text
    assert "TLBs" not in text.splitlines()


def test_software_at_cache_misses_stands_beside_tlbs(command: Command) -> None:
    short = ("lin", "--length", "50k", "--machine", "softvm,jm97", "--seeds", "2")
    smaller = ("--set", "cache.l2d.size=8KiB")
    text = command.ok("translate", *short, *smaller, "--out", "out").stdout
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        "data miss",
        "user entry",
        "write back",
        "without write-backs",
        "handler fetch",
        "TLB miss",
    ):
        assert words in text
    # There is no TLB whose misses a row could show.
    row = next(line for line in text.splitlines() if line.startswith("softvm"))
    assert row.split()[1] == "-"
    results = pl.read_parquet(command.directory / "out" / "results.parquet")
    on = results.filter(pl.col("metric") == "translation.cycles.write-back")
    assert on["value"].min() > 0
