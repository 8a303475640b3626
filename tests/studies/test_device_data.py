"""Tests studies whose cells are schemes for device data, and the two that are shipped."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from binhop import study
from binhop.device_data_figures import CLASSES, FATES, ratio
from binhop.errors import RequestError
from tests.conftest import ROOT, long

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

TEXT = """
name = "mixed"
title = "Schemes beside a machine as it is"
seeds = 2
length = "30k"

[[part]]
name = "ways"
workloads = ["file-copy"]
machine = "tb10"
show = ["evicted-unread", "dram.cycles", "row-hits.processor", "row-conflicts.devices"]
map = { x = "io.ddio-ways", y = "placement.policy", panels = "scheme", show = ["evicted-unread"] }
[part.axes]
scheme = ["ddio", { label = "back", value = "shared-cache", set = { "io.write" = "back" } }]
"placement.policy" = ["random", "bin-hopping"]
"io.ddio-ways" = [1, 4]

[[part]]
name = "whole"
workloads = ["file-copy"]
machine = "tb10"
"""


@pytest.fixture(scope="module")
def result() -> study.StudyResult:
    return study.run(study.plan(study.parse(TEXT)))


def counts(rows: pl.DataFrame) -> dict[str, int | float]:
    """Returns the metrics of one cell and placement."""
    return dict(rows.select("metric", "value").iter_rows())


def test_schemes_behind_one_front_are_one_run() -> None:
    plan = study.plan(study.parse(TEXT))
    assert [(run.of_devices, len(run.cells)) for run in plan.runs] == [(True, 4), (True, 4), (False, 1)]
    lines = study.explain(plan)
    assert lines[0] == "mixed: 9 cells in 2 parts, simulated in 3 runs"
    assert "  one front for each placement; 4 schemes behind it" in lines


def test_the_rows_are_those_of_device_data_alone(result: study.StudyResult) -> None:
    forms = {"ddio": ("ddio", ["io.ddio-ways=4"]), "back": ("shared-cache", ["io.write=back"])}
    machine = binhop.Machine.load("tb10", ["placement.policy=bin-hopping"])
    alone = binhop.device_data(machine, "file-copy", schemes=forms, seeds=2, length=30_000)
    of = result.results.filter(pl.col("placement.policy") == "bin-hopping", pl.col("io.ddio-ways") == "4")
    for scheme in forms:
        for seed in (0, 1):
            cell = counts(of.filter(scheme=scheme, seed=seed))
            expected = alone.results.filter(
                pl.col("scheme").is_null() | (pl.col("scheme") == scheme), seed=seed
            )
            assert {name: cell[name] for name in expected["metric"]} == counts(expected)
            figures = alone.figures.filter(scheme=scheme, seed=seed, figure="evicted-unread")
            assert cell["evicted-unread"] == figures["value"][0]


def test_a_machine_as_it_is_stands_beside_them(result: study.StudyResult) -> None:
    alone = binhop.simulate("tb10", "file-copy", seeds=2, length=30_000)
    whole = result.results.filter(part="whole")
    assert (
        whole.select("seed", "metric", "value").rows()
        == alone.results.select("seed", "metric", "value").rows()
    )
    assert result.processes["part"].unique().to_list() == ["whole"], "schemes have no rows of processes"


def test_sums_add_up(result: study.StudyResult) -> None:
    cells = result.results.filter(part="ways").partition_by("cell", "seed")
    assert len(cells) == 2 * 2 * 2 * 2
    for rows in cells:
        of = counts(rows)
        assert of["fate.written"] == sum(of[f"fate.{fate}"] for fate in FATES)
        assert of["fate.written"] > 0
        for agent, classes in (("processor", CLASSES[:2]), ("devices", CLASSES[2:])):
            kinds = ("row-hits", "row-misses", "row-conflicts")
            lines = {kind: sum(of[f"dram.{name}.{kind}"] for name in classes) for kind in kinds}
            for kind in ("row-hits", "row-conflicts"):
                assert of[f"{kind}.{agent}"] == ratio(lines[kind], sum(lines.values()))


def leak(ring: int, *settings: str) -> list[tuple[int, int]]:
    """Returns the lines that left the cache unread, and the lines that arrived, of each placement.

    A server receives 1 MiB in packets of 1,500 bytes, and the sender is a whole ring ahead. Frames follow
    each other, so that the first MiB of buffers fills each set of a way of `zen-4k` once.
    """
    machine = binhop.Machine.load(
        "zen-4k",
        [
            *("cache.l3.replacement=lru", "placement.policy=buddy", "io.packet=1500B"),
            *(f"io.ring={ring}", f"io.backlog={ring}", *settings),
        ],
    )
    found = binhop.device_data(
        machine, ROOT / "studies/leaky-dma/receiver.parquet", schemes=["ddio"], seeds=2, length=50_000
    )
    of = [counts(found.results.filter(scheme="ddio", seed=seed)) for seed in (0, 1)]
    return [(int(each["fate.evicted-unread"]), int(each["fate.written"])) for each in of]


def test_a_ring_that_fits_into_the_ways_leaks_nothing() -> None:
    for unread, written in leak(256, "io.ddio-ways=1"):  # 257 buffers of 2 KiB in a way of 1 MiB
        assert unread == 0
        assert written > 256 * 24
    for unread, _ in leak(1024, "io.ddio-ways=1"):  # 2 MiB of buffers
        assert unread > 0
    for unread, _ in leak(1024, "io.ddio-ways=3"):
        assert unread == 0


REFUSED = [
    ('"io.ddio-ways" = [1, 4]', '"io.ddio-ways" = [0, 1]', "ddio-ways lies between 1 and 63"),
    ('"io.ddio-ways" = [1, 4]', '"io.ddio-ways" = [1, 16]', "io.ddio-ways: 16: writes of devices must not"),
    ("\nshow", '\nset = { "io.packet" = "600KiB" }\nshow', "io.ring: 256: the ring holds the buffers"),
    ("\nshow", '\nset = { "io.backlog" = 257 }\nshow', "io.backlog: 257: the ring holds the buffers"),
    ('scheme = ["ddio", {', 'scheme = ["dido", {', "did you mean ddio?"),
    ('scheme = ["ddio", {', "scheme = [1, {", "part[0].axes.scheme[0]"),
    ('machine = "tb10"\nshow', 'machine = "tb10"\nscheme = "ddio"\nshow', "part[0].scheme"),
    ('x = "io.ddio-ways"', 'x = "io.ddio-way"', "part[0].map"),
    ('x = "io.ddio-ways"', 'x = "scheme"', "a parameter stands in a map once"),
    ('panels = "scheme", ', "", "this parameter has 2 values"),
    ('show = ["evicted-unread"] }', 'show = ["io-hits"] }', "part[0].map.show"),
    ('"dram.cycles"', '"dram.cycle"', "part ways: show"),
    ('name = "ways"', 'name = "ways"\nwarmup = "1k"', "part ways: warmup"),
    ('name = "ways"', 'name = "ways"\ninstructions = "1k"', "part ways: instructions"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[new for _, new, _ in REFUSED])
def test_what_cannot_be_is_refused_by_name(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(RequestError) as refused:
        study.plan(study.parse(TEXT.replace(old, new, 1)))
    assert said in str(refused.value), str(refused.value)


def test_the_command_draws_and_reports(command: Command) -> None:
    (command.directory / "mixed.toml").write_text(TEXT)
    done = command.ok("sweep", "mixed.toml", "--out", "out").stdout
    assert max(map(len, done.splitlines())) <= 80
    heads = [line.split()[4:] for line in done.splitlines() if " policy " in line]
    assert len(heads) == 4, "the table is too wide for one"
    assert [words[0].rstrip(",") for words in heads] == study.parse(TEXT).part[0].show
    assert all(words[-1] == "interval" for words in heads)
    made = command.directory / "out" / "mixed-ways.svg"
    before = made.read_bytes()
    assert b"evicted-unread, scheme back" in before
    assert not (command.directory / "out" / "mixed-whole.svg").exists()
    made.unlink()
    assert "mixed-ways.svg" in command.ok("report", "out").stdout
    assert made.read_bytes() == before
    again = command.ok("sweep", "mixed.toml", "--json", "-").stdout
    assert json.loads(again)["provenance"]["maps"]["ways"]["panels"] == "scheme"


def test_a_stopped_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = study.plan(study.parse(TEXT))
    first = study.run(plan, kept=tmp_path)
    # Whatever runs again fails.
    monkeypatch.setattr("binhop.study.device_data.device_data", None)
    monkeypatch.setattr("binhop.simulate_all", None)
    again = study.run(plan, kept=tmp_path)
    assert again.results.equals(first.results)
    assert again.processes.equals(first.processes)


@pytest.mark.parametrize("name", ["leaky-dma", long("placement-ddio")])
def test_the_shipped_studies(name: str, command: Command) -> None:
    path = ROOT / "studies" / name / "study.toml"
    command.ok("sweep", str(path), "--scale", "smoke", "--out", "out", "-q")
    result = study.StudyResult.read(command.directory / "out")
    asked = study.load(path)
    for part in asked.part:
        of = result.summary().filter(part=part.name)
        assert of.filter(metric="fate.written")["mean"].min() > 0
        shown = of.filter(pl.col("metric").is_in(asked.shown(part)))
        assert shown["metric"].n_unique() == len(asked.shown(part))
        picture = name if part.name == name else f"{name}-{part.name}"
        assert (command.directory / "out" / f"{picture}.png").stat().st_size > 10_000


def test_the_traces_are_those_of_the_script(tmp_path: Path) -> None:
    directory = ROOT / "studies" / "leaky-dma"
    spec = importlib.util.spec_from_file_location("receiver", directory / "receiver.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, lookups in (("receiver", 0), ("lookups", script.LOOKUPS)):
        script.write(tmp_path / f"{name}.parquet", lookups)
        made, shipped = (binhop.Trace.open(place / f"{name}.parquet") for place in (tmp_path, directory))
        assert made.inspect()["content_hash"] == shipped.inspect()["content_hash"]
